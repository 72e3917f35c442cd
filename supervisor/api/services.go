package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Service is a service and its endpoints.
type Service struct {
	Name      string     `json:"name"`
	Phase     core.Phase `json:"phase"`
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is a container of a service.
type Endpoint struct {
	Container string `json:"container"`
	Host      string `json:"host,omitempty"` // of the fleet; empty: this one
	Address   string `json:"address"`
	Port      int    `json:"port"`
	Ready     bool   `json:"ready"`
	Draining  bool   `json:"draining"`
}

func (a *API) services(w http.ResponseWriter, _ *http.Request) {
	if !a.knowsAll(w) {
		return
	}
	jsonList(a, w, func(yield func(Service) bool) {
		all := a.board.Services()
		for i := range all {
			if !yield(newService(&all[i])) {
				return
			}
		}
	})
}

func (a *API) service(w http.ResponseWriter, r *http.Request) {
	if !a.knowsAll(w) { // some of its members may be missing
		return
	}
	name := serviceName(r)
	s, err := a.board.FindWholeService(name)
	switch {
	case errors.Is(err, supervisor.ErrUnknownService):
		a.fail(w, http.StatusNotFound, fmt.Sprintf("no supervised container belongs to service %q", name))
	case err != nil:
		a.fail(w, http.StatusServiceUnavailable, err.Error())
	default:
		a.json(w, http.StatusOK, newService(&s))
	}
}

// serviceName returns the SERVICE or PROJECT/SERVICE in a request's path.
func serviceName(r *http.Request) string {
	if project := r.PathValue("project"); project != "" {
		return project + "/" + r.PathValue("service")
	}
	return r.PathValue("service")
}

func (a *API) serviceReady(w http.ResponseWriter, r *http.Request) {
	want := 1
	if s := r.URL.Query().Get("min"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			a.fail(w, http.StatusBadRequest, fmt.Sprintf("min must be a number of endpoints, it is %q", s))
			return
		}
		want = n
	}
	ready, all, reason := 0, 0, ""
	a.await(r.Context(), a.board.Complete, func() bool {
		ready, all, reason = a.countReady(serviceName(r))
		return reason != "" || ready >= want
	})
	if reason == "" && ready < want {
		reason = fmt.Sprintf("%d of %d endpoints ready, %d needed", ready, all, want)
		if all == 0 {
			reason += ": no container has that service"
		}
	}
	if reason != "" {
		a.text(w, http.StatusServiceUnavailable, textNotReady+reason+"\n")
		return
	}
	a.text(w, http.StatusOK, textReady)
}

// countReady returns how many members of a service are ready, and how many there are. An unknown
// service has none. reason says why it is not clear which service is meant.
func (a *API) countReady(service string) (ready, all int, reason string) {
	s, err := a.board.FindWholeService(service)
	if err != nil && !errors.Is(err, supervisor.ErrUnknownService) {
		return 0, 0, supervisor.ReasonNotFound(err)
	}
	for i := range s.Endpoints {
		if s.Endpoints[i].Ready {
			ready++
		}
	}
	return ready, len(s.Endpoints), ""
}

func newService(of *supervisor.Service) Service {
	s := Service{Name: of.Name, Phase: of.Phase()}
	for i := range of.Endpoints {
		e := &of.Endpoints[i]
		s.Endpoints = append(s.Endpoints, Endpoint{
			Container: e.Container, Host: e.Host, Address: e.Address, Port: e.Port, Ready: e.Ready, Draining: e.Draining,
		})
	}
	return s
}
