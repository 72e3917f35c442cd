package supervisor

import (
	"fmt"
)

// inconsistencies compares what the loop keeps up to date step by step with what follows
// from its entries.
func (l *loop) inconsistencies() (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	unsettled, waiting := 0, 0
	for _, e := range l.entries {
		name := e.container.Name
		if e.spec != nil && !e.state.Settled() {
			unsettled++
		}
		if e.place.began > 0 {
			waiting++
		}
		if !e.engine.entries.has(e) {
			report("%s is not in its engine's set", name)
		}
		if got := e.engine.maybeStopped.has(e); got != e.state.Ending.MaybeEngine {
			report("%s may be stopped by its engine: %v, and in the set: %v", name, e.state.Ending.MaybeEngine, got)
		}
	}
	if unsettled != l.unsettled {
		report("%d are unsettled, counted are %d", unsettled, l.unsettled)
	}
	if waiting != l.guard.waiting {
		report("%d wait, counted are %d", waiting, l.guard.waiting)
	}
	if n := len(l.allEntries()); n != len(l.entries) {
		report("%d are in the sets of engines, %d in all", n, len(l.entries))
	}
	found = append(found, l.board.latencies.inconsistencies(l.entries)...)
	return append(found, l.guard.inconsistencies(l.entries)...)
}

func (l *latencies) inconsistencies(entries map[string]*entry) (found []string) {
	members := map[serviceOfProject]int{}
	for _, e := range entries {
		if e.slot.latency != nil {
			members[e.slot.latency.of]++
		}
		if v := e.slot.view.Load(); v != nil && v.Service != "" && (e.slot.latency == nil || e.slot.latency.of.service != v.Service) {
			found = append(found, fmt.Sprintf("the probes of %s are not counted for %s", v.Container.Name, v.Service))
		}
	}
	for of, s := range l.byService.all {
		if n := s.containers; n != members[of] || n == 0 {
			found = append(found, fmt.Sprintf("latencies of %v are of %d containers, there are %d", of, n, members[of]))
		}
	}
	return found
}

// has looks where e says that it is.
func (s *entrySet) has(e *entry) bool {
	at := *s.place(e)
	return at > 0 && at <= len(s.entries) && s.entries[at-1] == e
}

func (g *guard) inconsistencies(entries map[string]*entry) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	members := make(map[string][]*entry)
	for _, e := range entries {
		if e.spec != nil {
			members[e.groupKey] = append(members[e.groupKey], e)
		}
	}
	for name, m := range g.groups {
		away, down, queued, wanting := 0, 0, 0, 0
		for _, e := range members[name] {
			inBudgets := g.budget.waiting.has(e) || g.budget.asking.has(e)
			if p := e.place.project; (p != nil) != g.budget.waiting.has(e) || p != nil && (!p.waiting.has(e) || !g.budget.turns.heads.has(p.head) || p.head != p.waiting.first()) {
				report("%s waits for the budget: %v, and in the project %+v", e.container.Name, g.budget.waiting.has(e), p)
			}
			if inBudgets || m.wanting.has(e) || m.down.has(e) {
				away++
			}
			in := noStage
			switch {
			case inBudgets:
				in = inBudget
			case m.wanting.has(e):
				in = wantsPlace
				wanting++
			case e.place.inGroup != nil:
				in = inGroup
				queued++
			}
			if stage := e.place.stage; in != min(stage, inBudget) || (stage == noStage) != (e.place.began == 0) {
				report("%s waits in queue %d, and knows %d", e.container.Name, in, stage)
			}
			if g.placed.has(e) != (e.place.wish != nil && m.down.has(e)) {
				report("%s is down: %v, and down with a wish for a place: %v", e.container.Name, m.down.has(e), g.placed.has(e))
			}
			if m.down.has(e) {
				down++
			}
		}
		if _, in := g.wanting[m]; m.wanting.Len() != wanting || in != (wanting > 0) || (m.queued > 0) != (wanting+queued > 0) || m.queued > 0 && g.queued[m.queued-1] != m {
			report("group %s: %d want a place, counted are %d, in the set: %v, %d", name, wanting, m.wanting.Len(), in, m.queued)
		}
		if m.members != len(members[name]) || m.away != away || m.down.Len() != down || m.waiting.Len() != queued {
			report("group %s: %d members, %d away, %d down, %d wait; counted are %d, %d, %d, %d",
				name, len(members[name]), away, down, queued, m.members, m.away, m.down.Len(), m.waiting.Len())
		}
	}
	if len(g.groups) != len(members) {
		report("%d groups, counted are %d", len(members), len(g.groups))
	}
	return found
}
