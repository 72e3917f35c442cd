package configs

import (
	"regexp"
	"strconv"
	"strings"

	"healthd/supervisor/core"
)

const (
	maxMembers      = 1_000_000 // only catches slips
	defaultGroup    = "the Compose project and service, else the container alone"
	shareMustBe     = `must be a number of members or a percentage such as "25%"`
	percentageRange = `must be "1%" to "100%"`
)

var percentForm = regexp.MustCompile(`^\d+%$`)

// readGroup leaves the name empty when there is none: only the supervisor knows
// what it is by default.
func readGroup(t *table) core.Group {
	var g core.Group
	if t.has("name") {
		g.Name = t.text("name", "", checkGroup)
	} else {
		t.take("name")
		t.value("name", defaultGroup, nil)
	}
	g.MaxUnavailable = t.share("max_unavailable", core.DefaultMaxUnavailable)
	// Members of other hosts wait for those of a group over all hosts, and a container that says it is in none does not
	// wait for them.
	t.fileOnly("scope", "unreachable")
	g.Fleet = t.has("scope") && t.choice("scope", scopeHost, scopeFleet) == scopeFleet
	wait := t.has("unreachable") && t.choice("unreachable", unreachableLocal, unreachableWait) == unreachableWait
	g.FleetWait = g.Fleet && wait
	t.done()
	return g
}

// share reads a number of members or a percentage of them.
func (t *table) share(key string, otherwise int) core.Share {
	n := t.take(key)
	if n != nil && n.textual() && percentForm.MatchString(n.text) {
		percent, err := strconv.Atoi(strings.TrimSuffix(n.text, "%"))
		if err != nil || percent < 1 || percent > 100 {
			t.wrong(n, t.at(key), "%s, is %s", percentageRange, quote(n.text))
			return core.Share{Number: otherwise}
		}
		t.value(key, quoteTOML(strconv.Itoa(percent)+"%"), n)
		return core.Share{Percent: percent}
	}
	if n != nil {
		if _, ok := n.integer(); !ok {
			t.wrong(n, t.at(key), "%s, is %s", shareMustBe, n.describe())
			return core.Share{Number: otherwise}
		}
	}
	return core.Share{Number: t.integer(key, otherwise, span[int]{1, maxMembers})}
}
