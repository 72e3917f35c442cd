package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// treatment is what the healer that looks after a container does with it.
type treatment struct {
	*healer        // nil: there is none
	action  string // of Docker-Guardian: "restart", "stop" or "notify"
	spurned string // why none of the healers that there are looks after it; empty: there is none
}

func (t treatment) heals() bool { return t.healer != nil }

// healedBy returns what is done with an unhealthy container. Where its labels ask for a healer that was not found,
// that one's defaults count.
func (s *service) healedBy(healers []*healer) treatment {
	for _, h := range healers {
		if h.chooses(s.labels) {
			t := treatment{healer: h, action: "restart"}
			if action := s.labels[autohealAction]; h.guardian && slices.Contains([]string{"stop", "notify"}, action) {
				t.action = action
			}
			return t
		}
	}
	for _, h := range []*healer{autohealByDefault(), deunhealthByDefault()} {
		if h.chooses(s.labels) && !slices.ContainsFunc(healers, func(other *healer) bool { return other.tool != "deunhealth" == (h.tool != "deunhealth") }) {
			return treatment{healer: h, action: "restart"}
		}
	}
	var whys []string
	for _, h := range healers {
		if h.guardian && (s.labels[autohealLabel] == "False" || s.labels[autohealAction] == "none") {
			whys = append(whys, h.tool+" leaves it alone, by its label")
			continue
		}
		whys = append(whys, h.why(false))
	}
	return treatment{spurned: strings.Join(whys, "; ")}
}

// period is how often the verdict is asked for.
func (t treatment) period() time.Duration {
	if t.heals() && t.interval > 0 {
		return t.interval
	}
	return verdictPeriod
}

// limits writes what bounds the healer's restarts.
func (t treatment) limits(spec *draft) {
	if t.giveUp > 0 && t.action == "restart" {
		i := inline{}
		i.set("restarts", fmt.Sprint(t.giveUp))
		i.set("within", quote(showDuration(t.giveUpWithin)))
		spec.own.set("give_up", i.String()).because("its restart budget")
	}
	if t.backoffMax > 0 {
		spec.table("backoff").duration("max", t.backoffMax)
	}
	if t.backoffReset > 0 {
		spec.table("backoff").duration("reset_after", t.backoffReset)
	}
}

// addHealers says of the healers what becomes of their own settings, and that they must be stopped.
func (d *document) addHealers(healers []*healer) {
	for _, h := range healers {
		d.head.remark("%s (%s) restarts unhealthy containers, too. Stop it when healthd runs with these specs: two healers restart twice.", h.tool, h.name)
		for _, text := range h.lost {
			d.head.lost("%s: %s", h.name, text)
		}
		for _, text := range h.remarked {
			d.head.remark("%s: %s.", h.name, text)
		}
		d.notes = append(d.notes, fmt.Sprintf("stop %s (%s) when healthd runs with these specs: two healers restart twice", h.tool, comment(h.name)))
	}
}

// addRest adds a spec for the containers that a healer will choose once they are made.
func (d *document) addRest(healers []*healer) error {
	for _, h := range healers {
		if h.all {
			d.head.remark("%s heals every container, also those to come. These specs are for the containers that there are.", h.tool)
			continue
		}
		spec, err := d.add(h.label)
		if err != nil {
			return err
		}
		spec.own.remark("For containers to come: %s heals all that have its label. Specs above go before it.", h.tool)
		i := inline{}
		i.set(quote(h.label), quote("true"))
		spec.own.set("match", i.String())
		spec.own.text("restart_policy", string(core.OnFailure)).because("of containers without a restart policy of Docker's")
		by := treatment{healer: h, action: "restart"}
		(&service{stopTimeout: -1}).grace(spec.own, by)
		t := spec.table("liveness")
		t.set("engine_health", "{}")
		t.duration("period", by.period())
		t.number("failure_threshold", h.threshold+1)
		by.limits(spec)
	}
	return nil
}
