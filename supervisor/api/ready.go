package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Texts in the answers to readiness checks.
const (
	textReady    = "ready\n"
	textDraining = "draining\n"
	textNotReady = "not ready: "
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
	m, err := a.board.FindMember(name)
	if errors.Is(err, supervisor.ErrUnknownContainer) {
		m, err = a.awaitMember(r.Context(), name)
	}
	reason := supervisor.ReasonNotFound(err)
	if err == nil {
		if state := r.Header[stateHeader]; len(state) == 1 && a.believes(r.RemoteAddr) {
			a.checked(m.ID, state[0])
		}
		if reason = m.Reason; m.Ready {
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

// believes says whether what a client tells of HAProxy counts.
func (a *API) believes(address string) bool {
	from, err := netip.ParseAddrPort(address)
	return err == nil && a.checked != nil &&
		slices.ContainsFunc(a.checksFrom, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// awaitMember is Board.FindMember, but waits for a container that is not known yet.
func (a *API) awaitMember(ctx context.Context, name string) (m supervisor.Member, err error) {
	known := func() bool { return a.board.Knows(name) }
	a.await(ctx, known, func() bool {
		m, err = a.board.FindMember(name)
		return !errors.Is(err, supervisor.ErrUnknownContainer)
	})
	return m, err
}
