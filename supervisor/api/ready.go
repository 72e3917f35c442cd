package api

import (
	"io"
	"net/http"
	"strings"

	"healthd/supervisor/core"
)

// Texts and reasons that a load balancer's operator gets to read.
const (
	textReady       = "ready\n"
	textDraining    = "draining\n"
	textNotReady    = "not ready: "
	reasonUnknown   = "UnknownContainer"
	reasonOtherName = "OtherService"
)

// stateHeader is how HAProxy says with a check what it makes of the server itself
// (http-check send-state).
const stateHeader = "X-Haproxy-Server-State"

// readyName takes the name out of a path of the readiness check, which does not go
// through the router: it is asked far more often than all others together.
func readyName(path string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, "/v1/ready/")
	return name, ok && name != ""
}

// ready answers 404 for draining because HAProxy's disable-on-404 turns just that
// into "no new sessions"; an unknown name must be 503, or a forgotten server would
// drain forever.
func (a *API) ready(w http.ResponseWriter, r *http.Request, name string) {
	a.header(w, a.plain)
	v, reason := a.find(name)
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

// find looks NAME or SERVICE/NAME up. Container names have no slash, services may.
func (a *API) find(name string) (v *core.View, reason string) {
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
