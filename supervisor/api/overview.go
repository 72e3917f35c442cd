package api

import (
	"iter"
	"net/http"
	"time"
	"unicode/utf8"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Glance is what somebody wants to see of each of many containers. It is short whatever probes say.
type Glance struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Runtime   string    `json:"runtime"`
	Namespace string    `json:"namespace,omitempty"`
	Image     string    `json:"image"`
	Project   string    `json:"project"`
	Service   string    `json:"service"`
	Look      string    `json:"look"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason,omitempty"`  // why it is not ready, or what it waits for
	Message   string    `json:"message,omitempty"` // the same for people
	Why       string    `json:"why,omitempty"`     // in sentences why it is as it is, also if it is ready
	Since     time.Time `json:"since,omitzero"`    // it looks like that
	Until     time.Time `json:"until,omitzero"`    // end of a wait, if that is known
	Restarts  int       `json:"restarts"`
	// Ended is how the newest run ended that is over.
	Ended       *Terminated `json:"ended,omitempty"`
	LastRestart string      `json:"lastRestart,omitempty"` // its cause, if it was one of the newest changes
	Held        bool        `json:"held,omitempty"`
	Observe     bool        `json:"observe,omitempty"` // healthd neither stops nor starts it
	Warnings    int         `json:"warnings,omitempty"`
	Failing     []Failing   `json:"failing,omitempty"`
	// Minutes has a letter for the worst of each of the last 60 minutes, the present one last: - healthd did not
	// watch it, r ready, s starting, n not ready, d draining, p paused, w waiting for its start, x stopped, u its
	// engine is away, i Invalid. It is upper case if the container was restarted.
	Minutes string `json:"minutes"`
}

// Failing is a probe whose last results were failures, or that healthd cannot ask.
type Failing struct {
	Probe     string `json:"probe"`
	Run       int    `json:"run"`
	Threshold int    `json:"threshold"`
	Output    string `json:"output"`            // cut
	Unknown   bool   `json:"unknown,omitempty"` // healthd could not ask it, Run times in a row
}

// lookLetters are of the looks in their order.
const lookLetters = "-rsndpwxui"

// maxGlance is how many bytes of a text a Glance has.
const maxGlance = 300

// overview answers with a Glance of each container, or of one, and says whether this host is in a fleet.
func (a *API) overview(w http.ResponseWriter, r *http.Request) {
	now, all := time.Now(), a.board.All()
	if name := r.URL.Query().Get("container"); name != "" {
		v, err := a.board.Find(name)
		if err != nil {
			a.failRequest(w, err, name)
			return
		}
		all = func(yield func(*core.View) bool) { yield(v) }
	}
	if a.fleet != nil {
		w.Header().Set(fleetHeader, "true")
	}
	jsonList(a, w, a.glances(all, now))
}

func (a *API) glances(all iter.Seq[*core.View], now time.Time) iter.Seq[Glance] {
	return func(yield func(Glance) bool) {
		for v := range all {
			if !yield(a.glance(v, now)) {
				return
			}
		}
	}
}

func (a *API) glance(v *core.View, at time.Time) Glance {
	g := newGlance(v, at)
	g.Warnings = len(v.Warnings())
	id := v.Container.ID
	g.LastRestart, g.Minutes = a.board.LastRestart(id).String(), minuteLetters(a.board.Minutes(id, at))
	return g
}

// newGlance returns a Glance of what is at a time of healthd's own.
func newGlance(v *core.View, at time.Time) Glance {
	c, look := v.Container, supervisor.LookOf(v)
	g := Glance{
		ID: c.ID, Name: c.Name, Runtime: c.Runtime, Namespace: c.Namespace, Image: c.Image,
		Project: core.ProjectOf(c.Labels), Service: v.Service, Look: look.String(), Since: core.ByClock(sinceOf(v, look), at),
		Restarts: v.State.RestartCount(), Held: v.State.Lasting.Held(),
	}
	now, last := states(v, at)
	if g.Ended = last.Terminated; now.Terminated != nil {
		g.Ended = now.Terminated
	}
	g.Ready, g.Reason, g.Message = v.Readiness()
	if wait := v.Waiting(); wait != nil {
		g.Reason, g.Message, g.Until = wait.Reason, wait.Message, core.ByClock(wait.Until, at)
	}
	g.Message = cut(g.Message)
	g.Observe, g.Failing = v.Spec != nil && v.Spec.Observe, failing(v)
	g.Why = why(&g, look)
	return g
}

// failing returns the probes of which the page says that they fail.
func failing(v *core.View) []Failing {
	if v.Spec == nil || !v.State.Engine.State.Alive() {
		return nil
	}
	var all []Failing
	for t, p := range v.Spec.Probes {
		y := &v.State.Health.Probes[t]
		outcome, run, _ := y.Newest()
		if p != nil && (outcome == prober.Failure || y.Unasked()) {
			unknown := outcome == prober.Unknown
			all = append(all, Failing{core.ProbeType(t).String(), run, p.FailureThreshold, cut(y.Last.Output), unknown})
		}
	}
	return all
}

// sinceOf returns when a container began to look as it does; zero where nobody knows.
func sinceOf(v *core.View, look supervisor.Look) time.Time {
	s := &v.State
	switch look {
	case supervisor.LookReady, supervisor.LookNotReady, supervisor.LookDraining, supervisor.LookPaused:
		return s.Conditions.Ready.Since
	case supervisor.LookStarting:
		return s.Run.StartedAt
	case supervisor.LookWaiting, supervisor.LookStopped:
		return s.Run.Exit.FinishedAt
	}
	return time.Time{}
}

func minuteLetters(minutes [supervisor.TimelineMinutes]supervisor.LookSet) string {
	letters := make([]byte, len(minutes))
	for i, m := range minutes {
		letters[i] = lookLetters[m.Worst()]
		if m.Restarted() {
			letters[i] -= 'a' - 'A'
		}
	}
	return string(letters)
}

// cut shortens a text for a Glance.
func cut(s string) string {
	if len(s) <= maxGlance {
		return s
	}
	n := maxGlance
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
