package api

import (
	"net/http"
	"strconv"

	"healthd/supervisor"
)

// TraefikConfig is a dynamic configuration of Traefik. It has services only: routers are the user's.
type TraefikConfig struct {
	// HTTP is nil without services: Traefik refuses an empty object of these.
	HTTP *TraefikHTTP `json:"http,omitempty"`
}

// TraefikHTTP has the services by their plain names: see supervisor.PlainName.
type TraefikHTTP struct {
	Services map[string]TraefikService `json:"services"`
}

// TraefikService is a service of Traefik.
type TraefikService struct {
	LoadBalancer TraefikServers `json:"loadBalancer"`
}

// TraefikServers are never nil: without the key, Traefik refuses all of the configuration.
type TraefikServers struct {
	Servers []TraefikServer `json:"servers"`
}

// TraefikServer is a ready endpoint.
type TraefikServer struct {
	URL string `json:"url"`
}

// TargetGroup is one endpoint, as Prometheus reads it.
type TargetGroup struct {
	Targets []string     `json:"targets"`
	Labels  TargetLabels `json:"labels"`
}

// TargetLabels are those of a target. To Prometheus an empty one is none.
type TargetLabels struct {
	Project   string `json:"project"`
	Service   string `json:"service"`
	Container string `json:"container"`
	Host      string `json:"host,omitempty"` // of the fleet; empty: this one
	Ready     string `json:"ready"`          // true or false
}

// traefik answers Traefik's HTTP provider.
func (a *API) traefik(w http.ResponseWriter, _ *http.Request) {
	if a.asked != nil {
		a.asked()
	}
	if a.knowsAll(w) {
		a.json(w, http.StatusOK, traefikConfig(a.board.Services()))
	}
}

// prometheus answers the HTTP service discovery of Prometheus.
func (a *API) prometheus(w http.ResponseWriter, _ *http.Request) {
	if a.knowsAll(w) {
		a.json(w, http.StatusOK, targetGroups(a.board.Services()))
	}
}

// knowsAll answers 503 until all containers are known, with a fleet also those of other hosts. Who gets it keeps the answer before; a list with
// gaps would take away what is ready.
func (a *API) knowsAll(w http.ResponseWriter) bool {
	if a.board.Complete() {
		return true
	}
	missing := "all containers yet: see /readyz"
	if a.board.Synced() {
		missing = "the containers of other hosts yet"
	}
	w.Header().Set("Retry-After", "1")
	a.fail(w, http.StatusServiceUnavailable, "healthd does not know "+missing)
	return false
}

// traefikConfig has the ready endpoints of each service that traffic can be meant for. A service with
// none stays, so that its routers answer 503.
func traefikConfig(services []supervisor.Service) TraefikConfig {
	all := map[string]TraefikService{}
	for _, s := range services {
		meant, servers := false, []TraefikServer{}
		for _, e := range s.Endpoints {
			meant = meant || e.Port != 0
			if at, ok := e.At(); ok && e.Ready {
				servers = append(servers, TraefikServer{URL: "http://" + at.String()})
			}
		}
		if meant {
			all[supervisor.PlainName(s.Name)] = TraefikService{TraefikServers{servers}}
		}
	}
	if len(all) == 0 {
		return TraefikConfig{}
	}
	return TraefikConfig{&TraefikHTTP{all}}
}

// targetGroups has the endpoints that can be reached, ready or not: what is not ready is what metrics
// are looked at for.
func targetGroups(services []supervisor.Service) []TargetGroup {
	all := []TargetGroup{}
	for _, s := range services {
		for _, e := range s.Endpoints {
			if at, ok := e.At(); ok {
				all = append(all, TargetGroup{[]string{at.String()}, TargetLabels{
					Project: supervisor.Project(s.Name), Service: s.Name, Container: e.Container, Host: e.Host, Ready: strconv.FormatBool(e.Ready),
				}})
			}
		}
	}
	return all
}
