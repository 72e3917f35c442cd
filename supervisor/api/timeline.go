package api

import (
	"net/http"
	"time"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Timeline is the last hour of a container, and why it is as it is: what the page shows of it. It has
// nothing of the settings that the network may not see.
type Timeline struct {
	Status  Status                   `json:"status"`
	Start   time.Time                `json:"start"`   // of the first of 60 minutes
	Now     time.Time                `json:"now"`     // end of the last one, by healthd's clock
	Since   time.Time                `json:"since"`   // healthd watches it; not before Start
	Minutes string                   `json:"minutes"` // see Glance
	Changes []TimelineChange         `json:"changes"` // the newest ones, oldest first
	Probes  map[string]TimelineProbe `json:"probes"`  // by type
	Notes   []string                 `json:"notes"`
	Next    []Next                   `json:"next"`
	Records []TimelineRecord         `json:"records"` // newest first
}

// TimelineChange is a moment at which a container looked different, ended or was restarted.
type TimelineChange struct {
	At      time.Time   `json:"at"`
	Look    string      `json:"look"`              // from then on
	Restart string      `json:"restart,omitempty"` // why a new run began, as in healthd_container_restarts_total
	Ended   *Terminated `json:"ended,omitempty"`   // without times
}

// TimelineProbe is how a probe is asked and what it found in each minute. The counts of a minute stop at 255,
// those of unknown results at 63.
type TimelineProbe struct {
	Handler          string    `json:"handler"` // http, grpc, tcp, exec, engine or none
	PeriodSeconds    float64   `json:"periodSeconds"`
	TimeoutSeconds   float64   `json:"timeoutSeconds"`
	SuccessThreshold int       `json:"successThreshold"`
	FailureThreshold int       `json:"failureThreshold"`
	Successes        []int     `json:"successes"` // of each minute
	Failures         []int     `json:"failures"`
	Unknown          []int     `json:"unknown"`      // healthd could not ask
	WorstSeconds     []float64 `json:"worstSeconds"` // the longest latency of successes and failures, to 1 %
}

func (a *API) timeline(w http.ResponseWriter, r *http.Request) {
	v := a.findOrFail(w, r)
	if v == nil {
		return
	}
	now := time.Now()
	past, _ := a.board.Timeline(v.Container.ID, now) // of one that is gone meanwhile: an empty one
	t := Timeline{
		Status: newStatus(v, now), Start: past.Start.UTC(), Now: now.UTC(), Since: core.ByClock(past.Since, now), Minutes: minuteLetters(past.Minutes),
		Changes: make([]TimelineChange, len(past.Changes)), Probes: map[string]TimelineProbe{}, Notes: notes(v), Next: nextByClock(v, now),
		Records: a.timelineRecords(v),
	}
	for i, c := range past.Changes {
		t.Changes[i] = TimelineChange{At: c.At.UTC(), Look: c.Look.String(), Restart: c.Restart.String()}
		if c.Ended {
			t.Changes[i].Ended = newTerminated(core.Exit{Code: c.ExitCode, Reason: c.Reason})
		}
	}
	if v.Spec == nil {
		a.json(w, http.StatusOK, t)
		return
	}
	for probe, p := range v.Spec.Probes {
		if p != nil {
			t.Probes[core.ProbeType(probe).String()] = newTimelineProbe(p, past.Probes[probe])
		}
	}
	a.json(w, http.StatusOK, t)
}

func newTimelineProbe(p *core.ProbeSpec, found *[supervisor.TimelineMinutes]supervisor.ProbeMinute) TimelineProbe {
	t := TimelineProbe{
		Handler: handlerName(&p.Handler), PeriodSeconds: p.Period.Seconds(), TimeoutSeconds: p.Timeout.Seconds(),
		SuccessThreshold: p.SuccessThreshold, FailureThreshold: p.FailureThreshold,
		Successes: make([]int, supervisor.TimelineMinutes), Failures: make([]int, supervisor.TimelineMinutes),
		Unknown: make([]int, supervisor.TimelineMinutes), WorstSeconds: make([]float64, supervisor.TimelineMinutes),
	}
	if found == nil {
		return t
	}
	for i, m := range found {
		t.Successes[i], t.Failures[i], t.Unknown[i], t.WorstSeconds[i] = m.Successes, m.Failures, m.Unknown, m.Worst.Seconds()
	}
	return t
}

func handlerName(h *prober.Handler) string {
	switch {
	case h.HTTPGet != nil:
		return "http"
	case h.GRPC != nil:
		return "grpc"
	case h.TCPSocket != nil:
		return "tcp"
	case h.Exec != nil:
		return "exec"
	case h.EngineHealth != nil:
		return "engine"
	}
	return "none"
}
