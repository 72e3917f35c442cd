package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// projectTurn is when a project came to wait for the budget, or had its turn last: after the one and up to the other
// moment, as turns looks only now and then.
type projectTurn struct {
	after, upTo time.Time
	waiting     map[string]bool // by container ID
}

// noteProjects notes which projects wait for the budget. One of which no container waits that has waited at the last
// look may have come anew.
func (t *turns) noteProjects() {
	now, before := time.Now(), t.projects
	t.projects = make(map[string]projectTurn)
	for id, e := range t.l.entries {
		if e.spec == nil || !waitsFor(e, core.WaitRestartBudget) {
			continue
		}
		name := projectOf(e)
		p, ok := t.projects[name]
		if !ok {
			p = projectTurn{t.looked, now, make(map[string]bool)}
		}
		if b := before[name]; b.waiting[id] {
			p.after, p.upTo = b.after, b.upTo
		}
		p.waiting[id] = true
		t.projects[name] = p
	}
	t.looked = now
}

// use notes that a project has had its turn.
func (t *turns) use(project string, at time.Time) {
	if p, ok := t.projects[project]; ok {
		p.after, p.upTo = at, at
		t.projects[project] = p
	}
}

// noteAsks checks and notes those whose turn has come since the last look, and whose liveness probe is asked once more.
func (t *turns) noteAsks() {
	var asked []*entry
	for id, e := range t.l.entries {
		if at := e.state.Health.Wait.Asked; !at.IsZero() && !at.Equal(t.asked[id]) {
			asked = append(asked, e)
			t.asked[id] = at
			t.checkTurn(e)
		}
	}
	for _, e := range asked {
		t.use(projectOf(e), e.state.Health.Wait.Asked)
	}
}

// checkTurn checks that the turn of e has come.
func (t *turns) checkTurn(e *entry) {
	limit := t.l.guard.budget.limit.MaxRestarts
	if limit <= 0 {
		return
	}
	mine := t.waits[e.container.ID]
	turn, waits := t.projects[projectOf(e)]
	if !waits {
		turn.after = t.looked
	}
	var first []string
	for _, o := range t.l.entries {
		its := t.waits[o.container.ID]
		if o == e || o.spec == nil || its.began == 0 || its.group != "" || !waitsFor(o, core.WaitRestartBudget) {
			continue
		}
		before := mine.began == 0 || its.began < mine.began
		if projectOf(o) != projectOf(e) {
			fleet := e.spec.Group.Fleet || o.spec.Group.Fleet // it may have had its turn before it waited for its place
			other, waits := t.projects[projectOf(o)]
			before = waits && !fleet && other.upTo.Before(turn.after)
		}
		if before {
			first = append(first, o.container.Name)
		}
	}
	if len(first) > 0 && len(first) >= limit-t.ofBudget() {
		t.errorf("%s has its turn before %v, whose turn it was", e.container.Name, first)
	}
}
