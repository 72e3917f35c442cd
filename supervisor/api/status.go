package api

import (
	"net/http"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Status is a container and its health.
type Status struct {
	Name          string                 `json:"name"`
	ID            string                 `json:"id"`
	Runtime       string                 `json:"runtime"`
	Namespace     string                 `json:"namespace,omitempty"` // the engine's, but for its default one
	Image         string                 `json:"image"`
	Spec          string                 `json:"spec"`
	Project       string                 `json:"project"` // of Docker Compose
	Service       string                 `json:"service"`
	Address       string                 `json:"address"` // IP address, empty without one
	Group         string                 `json:"group"`
	Identity      string                 `json:"identity"`
	Phase         core.Phase             `json:"phase"`
	Started       bool                   `json:"started"`
	Ready         bool                   `json:"ready"`
	Why           string                 `json:"why,omitempty"` // in sentences why it is as it is; empty: there is nothing to say
	Draining      bool                   `json:"draining"`
	Held          bool                   `json:"held"`
	HeldUntil     time.Time              `json:"heldUntil,omitzero"` // zero while held: until somebody resumes it
	RestartPolicy core.RestartPolicy     `json:"restartPolicy"`
	EnginePolicy  string                 `json:"enginePolicy,omitempty"` // the engine's own restart policy: after exits it applies, not RestartPolicy
	RestartCount  int                    `json:"restartCount"`
	State         ContainerState         `json:"state"`
	LastState     ContainerState         `json:"lastState"`
	Conditions    []Condition            `json:"conditions"`
	Probes        map[string]ProbeStatus `json:"probes"` // by type
	Invalid       string                 `json:"invalid"`
	Mode          string                 `json:"mode,omitempty"`         // observe: healthd neither stops nor starts it
	ManagedBy     string                 `json:"managedBy,omitempty"`    // the orchestrator to which healthd leaves the start
	Unsupervised  string                 `json:"unsupervised,omitempty"` // why healthd leaves it alone; of healthd status --all
	Unseen        string                 `json:"unseen,omitempty"`       // why it cannot be inspected: nothing is known of its health
	Warnings      []string               `json:"warnings"`               // for example that another tool also restarts it
}

// DisplayNames gives each container the name by which commands find it, see
// runtime.NamesAmong. In JSON, statuses keep the plain name beside runtime, namespace and ID.
func DisplayNames(all []Status) {
	containers := make([]*runtime.Container, len(all))
	for i, s := range all {
		containers[i] = &runtime.Container{Runtime: s.Runtime, ID: s.ID, Namespace: s.Namespace, Name: s.Name, SharesName: true}
	}
	for i, name := range runtime.NamesAmong(containers) {
		all[i].Name = name
	}
}

// ContainerState has at most one field set.
type ContainerState struct {
	Running    *Running    `json:"running,omitempty"`
	Waiting    *Waiting    `json:"waiting,omitempty"`
	Terminated *Terminated `json:"terminated,omitempty"`
}

// Running is the state of a container that runs.
type Running struct {
	StartedAt time.Time `json:"startedAt"`
}

// Waiting is the state of a container that waits for something.
type Waiting struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Until   time.Time `json:"until,omitzero"`
}

// Terminated is the state of a container that has ended.
type Terminated struct {
	ExitCode   int       `json:"exitCode"`
	Reason     string    `json:"reason"`
	Signal     int       `json:"signal,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

// ProbeStatus is what one probe found in the present run.
type ProbeStatus struct {
	Result         string     `json:"result"`
	Outcome        string     `json:"outcome"`
	Run            int        `json:"run"`
	Since          time.Time  `json:"since,omitzero"` // when the first of these probes began
	Threshold      int        `json:"threshold"`
	OnHold         bool       `json:"onHold"`
	Output         string     `json:"output"`
	LastProbeTime  *time.Time `json:"lastProbeTime"`
	LatencySeconds float64    `json:"latencySeconds"`
	// CertificateExpiry is when the certificate of the server ends; zero: it has shown none.
	CertificateExpiry time.Time `json:"certificateExpiry,omitzero"`
}

func (a *API) container(w http.ResponseWriter, r *http.Request) {
	if s := a.findUnseen(r.PathValue("name")); s != nil {
		a.json(w, http.StatusOK, s)
		return
	}
	if v := a.findOrFail(w, r); v != nil {
		a.json(w, http.StatusOK, newStatus(v, time.Now()))
	}
}

// findOrFail returns the container that the path names, or answers 404, or 409 when several
// have the name.
func (a *API) findOrFail(w http.ResponseWriter, r *http.Request) *core.View {
	v, err := a.board.Find(r.PathValue("name"))
	if err != nil {
		a.failRequest(w, err, r.PathValue("name"))
		return nil
	}
	return v
}

// newStatus returns the status at a time of healthd's own.
func newStatus(v *core.View, at time.Time) Status {
	c, s := v.Container, &v.State
	ready, _, _ := v.Readiness()
	started, _ := v.Started()
	status := Status{
		Name: c.Name, ID: c.ID, Runtime: c.Runtime, Namespace: c.Namespace, Image: c.Image,
		Project: core.ProjectOf(c.Labels), Service: v.Service, Address: c.Address, Group: v.Group, Identity: v.Identity,
		Phase: v.Phase(), Started: started, Ready: ready, Draining: s.Draining(),
		Held: s.Lasting.Held(), HeldUntil: core.ByClock(s.Lasting.HeldUntil(), at), RestartCount: s.RestartCount(), Conditions: conditions(v, at),
		Probes: map[string]ProbeStatus{}, Invalid: v.Invalid, EnginePolicy: enginePolicy(v),
		Warnings: append([]string{}, v.Warnings()...), // never null
	}
	status.State, status.LastState = states(v, at)
	status.Why = newGlance(v, at).Why
	if v.Spec == nil {
		return status
	}
	status.Spec, status.RestartPolicy = v.Spec.Name, v.Spec.RestartPolicy
	status.ManagedBy = v.Spec.ManagedElsewhere
	if v.Spec.Observe {
		status.Mode = "observe"
	}
	for t := range core.ProbeType(core.NumProbes) {
		if p := v.Spec.Probes[t]; p != nil {
			status.Probes[t.String()] = newProbeStatus(p, &s.Health.Probes[t], s.Certificate(t), at)
		}
	}
	return status
}

func newProbeStatus(p *core.ProbeSpec, y *core.ProbeState, c core.Certificate, at time.Time) ProbeStatus {
	outcome, run, since := y.Newest()
	threshold := p.SuccessThreshold
	if outcome == prober.Failure {
		threshold = p.FailureThreshold
	}
	return ProbeStatus{
		Result: y.Result.String(), Outcome: outcome.String(),
		Run: run, Since: core.ByClock(since, at), Threshold: threshold, OnHold: y.OnHold,
		Output: y.Last.Output, LastProbeTime: byClockOrNil(y.LastAt, at), LatencySeconds: y.Last.Latency.Seconds(),
		CertificateExpiry: c.NotAfter.UTC(),
	}
}

// states returns the present state and the last one before it. While a container
// waits for its next start, the run that ended is the last state, as in a Pod.
func states(v *core.View, at time.Time) (now, last ContainerState) {
	s := &v.State
	if !s.Run.LastExit.FinishedAt.IsZero() {
		last.Terminated = newTerminated(s.Run.LastExit)
	}
	waiting := v.Waiting()
	switch {
	case waiting != nil:
		now.Waiting = &Waiting{waiting.Reason, waiting.Message, core.ByClock(waiting.Until, at)}
		if !s.Engine.State.Alive() && !s.Run.Exit.FinishedAt.IsZero() {
			last.Terminated = newTerminated(v.LastExit())
		}
	case s.Engine.State.Alive():
		now.Running = &Running{s.Run.StartedAt.UTC()}
	default:
		now.Terminated = newTerminated(s.Run.Exit)
	}
	return now, last
}

// newTerminated derives the signal from the exit code: engines report 128 + signal.
func newTerminated(e core.Exit) *Terminated {
	const signalled, lastSignal = 128, 64
	t := &Terminated{
		ExitCode: e.Code, Reason: e.Reason,
		StartedAt: e.StartedAt.UTC(), FinishedAt: e.FinishedAt.UTC(),
	}
	if signal := e.Code - signalled; signal > 0 && signal <= lastSignal {
		t.Signal = signal
	}
	return t
}
