package api

import (
	"cmp"
	"slices"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// unseen returns the containers that healthd could not inspect, sorted by name.
func (a *API) unseen() []Status {
	var all []Status
	for r, u := range a.board.Unseen() {
		all = append(all, newUnseen(r.Name, &u))
	}
	slices.SortFunc(all, func(x, y Status) int { return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID)) })
	return all
}

// findUnseen returns the one of that name or ID; nil if there is none, or more than one, or one that is supervised.
func (a *API) findUnseen(name string) *Status {
	if _, err := a.board.Find(name); err == nil {
		return nil
	}
	var found *Status
	for _, s := range a.unseen() {
		if s.Name == name || s.ID == strings.TrimPrefix(name, runtime.IDPrefix) {
			if found != nil {
				return nil
			}
			found = &s
		}
	}
	return found
}

func newUnseen(engine string, u *runtime.Unseen) Status {
	return Status{
		Name: u.Traits().Name, ID: u.ID, Runtime: engine, Namespace: u.Namespace, Image: u.Image, Project: core.ProjectOf(u.Labels),
		Phase: core.PhaseUnknown, Unseen: u.Err.Error(), Why: sentence("it cannot be inspected: " + u.Err.Error()),
		Conditions: []Condition{}, Probes: map[string]ProbeStatus{}, Warnings: []string{},
	}
}

// explainUnseen says what there is to say of a container that cannot be inspected.
func explainUnseen(s *Status) Explanation {
	return Explanation{
		Status: *s, MatchedBy: "its engine lists it, but does not show it", Notes: []string{s.Why}, Values: []Value{}, Events: []core.Event{},
		Next: []Next{{What: "healthd goes on asking the engine. Until it knows the container it neither probes, restarts nor publishes it"}},
	}
}
