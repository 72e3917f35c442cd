package configs

import (
	"strconv"
	"time"

	"healthd/supervisor/core"
)

// What Kubernetes allows.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// restartRules reads the rules for exit codes. In Kubernetes they need a
// container's own restart policy beside them; here there always is one.
func (t *table) restartRules(key string) []core.RestartRule {
	n := t.take(key)
	if n == nil {
		return nil
	}
	if n.kind == tableKind && !n.at.fromLabel() {
		t.wrong(n, t.at(key), "must be an array of tables, is a table: write [[spec.%s]]", key)
		return nil
	}
	list, ok := t.list(key, nil)
	if !ok {
		return nil
	}
	if count := len(list.items); count > maxRestartRules {
		t.wrong(list.items[maxRestartRules], t.at(key), "must have at most %d rules, has %d", maxRestartRules, count)
		return nil
	}
	if len(list.items) == 0 {
		t.value(key, showList(nil), n)
	}
	var rules []core.RestartRule
	for i, item := range list.items {
		rules = append(rules, t.restartRule(item, t.at(key)+index(i)))
	}
	return rules
}

func (r *reader) restartRule(n *node, path string) core.RestartRule {
	if n.kind != tableKind {
		r.wrongTable(n, path)
		return core.RestartRule{}
	}
	t := &table{reader: r, n: n, path: path}
	rule := core.RestartRule{
		ExitCodes: t.exitCodes("exit_codes", 0),
		Operator:  core.RuleOperator(t.required("operator", string(core.In), string(core.NotIn))),
	}
	t.required("action", "Restart")
	t.done()
	return rule
}

// exitCodes reads a list of exit codes from least to 255.
func (t *table) exitCodes(key string, least int) []int {
	if t.missing(key) {
		return nil
	}
	n, ok := t.list(key, nil)
	if !ok {
		return nil
	}
	if count := len(n.items); count < 1 || count > maxExitCodes {
		t.wrong(n, t.at(key), "must have 1 to %d exit codes, has %d", maxExitCodes, count)
		return nil
	}
	var codes []int
	var shown []string
	for i, item := range n.items {
		code, right := t.number(item, t.at(key)+index(i), span[int]{least, 255})
		codes, shown, ok = append(codes, code), append(shown, strconv.Itoa(code)), ok && right
	}
	if ok {
		t.value(key, showList(shown), n)
	}
	return codes
}

func (s *specReader) backoff(t *table) core.Backoff {
	before := len(s.problems)
	bounds := durations(time.Millisecond)
	// When one of the two is set, the default of the other gives way, as the
	// kubelet's does to the maximum of its node.
	unseen := &table{reader: &reader{}, n: t.n}
	most := unseen.duration("max", core.DefaultBackoffMax, bounds)
	initial := t.duration("initial", min(core.DefaultBackoffInitial, most), bounds)
	b := core.Backoff{
		Initial:    initial,
		Max:        t.duration("max", max(core.DefaultBackoffMax, initial), bounds),
		ResetAfter: t.duration("reset_after", core.DefaultBackoffReset, bounds),
	}
	t.done()
	if len(s.problems) == before && b.Initial > b.Max {
		// A label is to blame before a file, which was right without it.
		key, text := "initial", "must be at most max ("+bareDuration(b.Max)+"), is "+showDuration(b.Initial)
		if t.n.fields["max"].at.fromLabel() {
			key, text = "max", "must be at least initial ("+bareDuration(b.Initial)+"), is "+showDuration(b.Max)
		}
		t.wrong(t.n.fields[key], t.at(key), "%s", text)
	}
	return b
}

// readGiveUp reads after how many restarts healthd gives up; without the table it never does.
func readGiveUp(t *table) core.GiveUp {
	const defaultWithin = time.Hour
	if t.n == nil {
		t.reader.values = append(t.reader.values, core.Value{Path: t.path, Value: "never", Origin: originDefault})
		return core.GiveUp{}
	}
	var g core.GiveUp
	if !t.missing("restarts") {
		g.Restarts = t.integer("restarts", 0, span[int]{1, core.MaxGiveUp})
	}
	g.Within = t.duration("within", defaultWithin, durations(time.Second))
	t.done()
	return g
}
