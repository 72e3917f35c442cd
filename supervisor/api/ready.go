package api

import (
	"context"
	"io"
	"net/http"
	"strings"

	"healthd/supervisor/core"
)

// Texts and reasons in the answers to readiness checks.
const (
	textReady       = "ready\n"
	textDraining    = "draining\n"
	textNotReady    = "not ready: "
	reasonUnknown   = "UnknownContainer"
	reasonOtherName = "OtherService"
)

// stateHeader is the header in which HAProxy says how it sees the server (http-check
// send-state).
const stateHeader = "X-Haproxy-Server-State"

// readyName returns the name in the path of a readiness check. Readiness checks bypass the
// router: they are far more frequent than all other requests.
func readyName(path string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, "/v1/ready/")
	return name, ok && name != ""
}

// ready answers 404 for draining: with disable-on-404, HAProxy then sends no new sessions.
// An unknown name must give 503, or the server of a removed container would drain for ever.
func (a *API) ready(w http.ResponseWriter, r *http.Request, name string) {
	a.header(w, a.plainType)
	v, reason := a.findInService(name)
	if reason == reasonUnknown {
		v, reason = a.awaitInService(r.Context(), name)
	}
	if v != nil {
		if state := r.Header[stateHeader]; a.checked != nil && len(state) == 1 {
			a.checked(v.Container.ID, state[0])
		}
		var ready bool
		if ready, reason, _ = v.Readiness(); ready {
			io.WriteString(w, textReady)
			return
		}
	}
	if reason == core.NotReadyDraining {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, textDraining)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, textNotReady)
	io.WriteString(w, reason)
	io.WriteString(w, "\n")
}

// awaitInService is findInService, but waits for a container that is not known yet.
func (a *API) awaitInService(ctx context.Context, name string) (v *core.View, reason string) {
	a.await(ctx, func() bool {
		v, reason = a.findInService(name)
		return reason != reasonUnknown
	})
	return v, reason
}

// findInService returns the container of NAME or SERVICE/NAME. Services may have a slash in their
// name, containers cannot.
func (a *API) findInService(name string) (v *core.View, reason string) {
	service := ""
	i := strings.LastIndexByte(name, '/')
	if i >= 0 {
		service, name = name[:i], name[i+1:]
	}
	v, ok := a.board.Find(name)
	if !ok {
		return nil, reasonUnknown
	}
	if i >= 0 && v.Service != service {
		return nil, reasonOtherName
	}
	return v, ""
}
