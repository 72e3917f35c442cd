package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	Address   string `json:"address"`
	Port      int    `json:"port"`
	Ready     bool   `json:"ready"`
	Draining  bool   `json:"draining"`
}

func (a *API) services(w http.ResponseWriter, _ *http.Request) {
	jsonList(a, w, slices.Values(groupByService(a.board.Views())))
}

func (a *API) service(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("service")
	members := a.members(name)
	if len(members) == 0 {
		a.fail(w, http.StatusNotFound, fmt.Sprintf("no supervised container belongs to service %q", name))
		return
	}
	a.json(w, http.StatusOK, newService(name, members))
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
	service := r.PathValue("service")
	ready, all := 0, 0
	a.await(r.Context(), func() bool {
		ready, all = a.countReady(service)
		return ready >= want
	})
	if ready < want {
		a.text(w, http.StatusServiceUnavailable,
			fmt.Sprintf("%s%d of %d endpoints ready, %d needed\n", textNotReady, ready, all, want))
		return
	}
	a.text(w, http.StatusOK, textReady)
}

// countReady returns how many members of a service are ready, and how many there are.
func (a *API) countReady(service string) (ready, all int) {
	members := a.members(service)
	for _, v := range members {
		if ok, _, _ := v.Readiness(); ok {
			ready++
		}
	}
	return ready, len(members)
}

func (a *API) members(service string) []*core.View {
	return slices.DeleteFunc(a.board.Views(), func(v *core.View) bool {
		return v.Service == "" || v.Service != service
	})
}

// groupByService returns the services of these containers, sorted by name.
func groupByService(views []*core.View) []Service {
	members := map[string][]*core.View{}
	for _, v := range views {
		if v.Service != "" {
			members[v.Service] = append(members[v.Service], v)
		}
	}
	services := make([]Service, 0, len(members))
	for name, of := range members {
		services = append(services, newService(name, of))
	}
	slices.SortFunc(services, func(x, y Service) int { return strings.Compare(x.Name, y.Name) })
	return services
}

func newService(name string, members []*core.View) Service {
	s := Service{Name: name, Phase: core.ServicePhase(members)}
	names := supervisor.NamesAmong(members)
	for i, v := range members {
		ready, _, _ := v.Readiness()
		e := Endpoint{
			Container: names[i], Address: v.Container.Address,
			Ready: ready, Draining: v.State.Draining(),
		}
		if v.Spec != nil {
			e.Port = v.Spec.Publish.Port
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}
