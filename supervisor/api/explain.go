package api

import (
	"fmt"
	"net/http"
	"time"

	"healthd/supervisor/core"
)

// Explanation says where a container's settings come from, how it is, and what happens next.
type Explanation struct {
	Status    Status       `json:"status"`
	MatchedBy string       `json:"matchedBy"`
	Values    []Value      `json:"values"`
	Notes     []string     `json:"notes"`
	Next      []Next       `json:"next"`
	Events    []core.Event `json:"events"` // the last ones, oldest first
}

// Value is one setting with its origin.
type Value struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Next is something that will happen, at a time if that is known.
type Next struct {
	At   time.Time `json:"at,omitzero"`
	What string    `json:"what"`
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	if s := a.findUnseen(r.PathValue("name")); s != nil {
		a.json(w, http.StatusOK, explainUnseen(s))
		return
	}
	if v := a.findOrFail(w, r); v != nil {
		a.json(w, http.StatusOK, newExplanation(v, a.history, a.board.NameOf(v.Container)))
	}
}

func newExplanation(v *core.View, history History, name string) Explanation {
	const lastEvents = 10
	e := ExplainSpec(v)
	e.Next, e.Events = nextByClock(v, time.Now()), history.Events(name, time.Time{})
	e.Events = e.Events[max(0, len(e.Events)-lastEvents):]
	return e
}

// ExplainSpec returns what an Explanation says of a container's spec, and nothing of what was or will be: of
// a container that no daemon need have seen.
func ExplainSpec(v *core.View) Explanation {
	e := Explanation{Status: newStatus(v, time.Now()), Notes: notes(v), Values: []Value{}}
	if v.Spec == nil {
		return e
	}
	e.MatchedBy = v.Spec.MatchedBy
	for _, value := range v.Spec.Settings() {
		e.Values = append(e.Values, Value(value))
	}
	return e
}

// notes returns facts that change what the settings alone would suggest.
func notes(v *core.View) []string {
	c, s := v.Container, &v.State
	notes := []string{}
	if p := enginePolicy(v); p != "" {
		notes = append(notes, "the engine's own restart policy is "+p+
			": the engine restarts it after a crash"+alsoWhenHeld(s)+"; healthd restarts it after a failed probe")
	}
	if text := managedElsewhere(v.Spec); text != "" {
		notes = append(notes, text)
	}
	if c.AutoRemove {
		notes = append(notes, "the engine removes it when it ends (--rm): healthd never restarts it")
	}
	if s.Lost {
		notes = append(notes, "healthd cannot reach the engine: it keeps what it published, and restarts nothing")
	}
	if s.Request.Error != "" {
		notes = append(notes, "healthd's last request to the engine failed: "+s.Request.Error)
	}
	if n := s.Totals.HTTPFallbacks; n > 0 {
		notes = append(notes, fmt.Sprintf("healthd repeated %d of its hooks over http, because the server answered https in plain HTTP", n))
	}
	if c.Error != "" {
		notes = append(notes, "the engine reports: "+c.Error)
	}
	return notes
}

// managedElsewhere says what healthd does with a container of another orchestrator; empty: all.
func managedElsewhere(spec *core.Spec) string {
	if spec == nil || spec.ManagedElsewhere == "" {
		return ""
	}
	text := "managed by " + spec.ManagedElsewhere + ": healthd "
	switch {
	case spec.Observe:
		return text + "only observes it, and neither stops nor starts it"
	case spec.OnFailure == core.TellFailed:
		return text + "records when its probe fails (on_failure none), and never starts it"
	}
	return text + "stops it when its probe fails, and leaves the start to " + spec.ManagedElsewhere
}

func alsoWhenHeld(s *core.State) string {
	if s.Lasting.Held() {
		return ", also during a hold"
	}
	return ""
}
