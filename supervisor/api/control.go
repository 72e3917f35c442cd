package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Control returns the handler for the control socket: all of ReadOnly, requests that change
// something, and details that the network must not get.
func (a *API) Control() http.Handler {
	const maxBody = 4 << 10
	mux, readOnly := http.NewServeMux(), a.ReadOnly()
	mux.Handle("/", readOnly)
	for _, r := range a.controlRoutes(newLimits()) {
		mux.HandleFunc(r.pattern, a.requireMethod(r.method, r.handler))
	}
	mux.Handle("/v1/containers/{name}", readOnly)
	mux.Handle("/v1/containers/{name}/timeline", readOnly)
	mux.HandleFunc("/v1/containers/{name}/{rest...}", a.notFound) // whatever the method: readOnly answers 405
	return http.MaxBytesHandler(a.rejectUnclean(mux.ServeHTTP), maxBody)
}

func (a *API) requireMethod(method string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			a.wrongMethod(w, method)
			return
		}
		h(w, r)
	}
}

// restart answers as soon as the restart has begun.
func (a *API) restart(w http.ResponseWriter, r *http.Request) {
	v := a.findOrFail(w, r)
	if v == nil {
		return
	}
	if err := a.controller.Restart(r.Context(), byID(v)); err != nil {
		a.failRequest(w, err, v.Container.Name)
		return
	}
	a.json(w, http.StatusAccepted, newStatus(a.current(v), time.Now()))
}

// byID returns the name that finds just that container: its ID may be another one's name.
func byID(v *core.View) string { return runtime.IDPrefix + v.Container.ID }

// current returns the container as it is now, after a request.
func (a *API) current(v *core.View) *core.View {
	if now, err := a.board.Find(byID(v)); err == nil {
		return now
	}
	return v
}

// ProbeResult is the result of a probe that was run once on request.
type ProbeResult struct {
	Type           string  `json:"type"`
	Outcome        string  `json:"outcome"`
	Cause          string  `json:"cause"`
	Warning        bool    `json:"warning"`
	Output         string  `json:"output"`
	LatencySeconds float64 `json:"latencySeconds"`
}

// noProbe says why there is no such probe to run; nil: there is one.
func noProbe(v *core.View, t core.ProbeType) error {
	switch {
	case v.Spec == nil:
		return fmt.Errorf("%w: its labels are wrong: %s", supervisor.ErrNoProbe, v.Invalid)
	case v.Spec.Probes == [core.NumProbes]*core.ProbeSpec{}:
		return fmt.Errorf("%w: it has none at all", supervisor.ErrNoProbe)
	case v.Spec.Probes[t] == nil:
		return fmt.Errorf("%w: %s", supervisor.ErrNoProbe, t)
	}
	return nil
}

func (a *API) probe(w http.ResponseWriter, r *http.Request) {
	v := a.findOrFail(w, r)
	if v == nil {
		return
	}
	t, err := probeType(v, r.URL.Query().Get("type"))
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := noProbe(v, t); err != nil {
		a.failRequest(w, err, v.Container.Name)
		return
	}
	// The engine needs time to start and to kill a command, beside the probe's timeout.
	const slack = 30 * time.Second
	timeout := v.Spec.Probes[t].Timeout + slack
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + slack))
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	result, err := a.controller.Ask(ctx, byID(v), t)
	if err != nil {
		a.failRequest(w, err, v.Container.Name)
		return
	}
	a.json(w, http.StatusOK, ProbeResult{
		Type: t.String(), Outcome: result.Outcome.String(), Cause: string(result.Cause),
		Warning: result.Warning, Output: result.Output, LatencySeconds: result.Latency.Seconds(),
	})
}

// probeType returns the probe of that name; without a name the container's liveness probe,
// else its readiness probe, else its startup probe.
func probeType(v *core.View, name string) (core.ProbeType, error) {
	for t := range core.ProbeType(core.NumProbes) {
		if name == t.String() {
			return t, nil
		}
	}
	if name != "" {
		return 0, fmt.Errorf("type must be startup, liveness or readiness, it is %q", name)
	}
	for _, t := range []core.ProbeType{core.Liveness, core.Readiness, core.Startup} {
		if v.Spec != nil && v.Spec.Probes[t] != nil {
			return t, nil
		}
	}
	return core.Liveness, nil
}

func (a *API) failUnknown(w http.ResponseWriter, name string) {
	a.fail(w, http.StatusNotFound, fmt.Sprintf("%v: %q", supervisor.ErrUnknownContainer, name))
}

// failRequest answers a request that the supervisor refused.
func (a *API) failRequest(w http.ResponseWriter, err error, name string) {
	switch {
	case errors.Is(err, supervisor.ErrUnknownContainer):
		a.failUnknown(w, name)
	case errors.Is(err, supervisor.ErrNoProbe), errors.Is(err, supervisor.ErrUnknownName):
		a.fail(w, http.StatusNotFound, err.Error())
	case errors.Is(err, supervisor.ErrStopping):
		a.fail(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.fail(w, http.StatusGatewayTimeout, "no answer in time: "+err.Error())
	default:
		a.fail(w, http.StatusConflict, err.Error())
	}
}
