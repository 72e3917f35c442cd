package api

import "net/http"

// route is a path of a listener, written as a pattern of http.ServeMux. Each belongs into
// openapi.json, too.
type route struct {
	method  string // the one that it answers; empty: GET, HEAD and OPTIONS alike
	pattern string
	handler http.HandlerFunc
}

// readyPattern is the path of readiness checks, which bypass the router: see readyName.
const readyPattern = "/v1/ready/{name...}"

// readOnlyRoutes returns what both listeners answer, apart from readiness checks.
func (a *API) readOnlyRoutes(l *limits) []route {
	routes := []route{
		{"", "/{$}", a.index},
		{"", "/page/{file}", a.pageFile},
		{"", "/livez", a.livez},
		{"", "/readyz", a.readyz},
		{"", "/v1/openapi.json", a.openAPI},
		{"", "/v1/services", a.list(l, a.services)},
		{"", "/v1/services/{service}", a.service},
		{"", "/v1/services/{project}/{service}", a.service},
		// A service called ready of Compose is PROJECT%2Fready.
		{"", "/v1/services/{service}/ready", a.serviceReady},
		{"", "/v1/services/{project}/{service}/ready", a.serviceReady},
		{"", "/v1/discovery/traefik", a.list(l, a.traefik)},
		{"", "/v1/discovery/prometheus", a.list(l, a.prometheus)},
		{"", "/v1/containers", a.list(l, a.containers)},
		{"", "/v1/containers/{name}", a.container},
		{"", "/v1/containers/{name}/timeline", a.timeline},
		{"", "/v1/overview", a.list(l, a.overview)},
		{"", "/v1/fleet", a.list(l, a.fleetView)},
		{"", "/v1/daemon", a.list(l, a.daemon)},
		{"", "/v1/events", a.events(l)},
	}
	if a.report != nil {
		routes = append(routes, route{"", "/v1/report", a.list(l, a.reportOf)})
	}
	if a.metrics != nil {
		routes = append(routes, route{"", "/metrics", a.inTurn(l.scrapes, a.metrics.ServeHTTP)})
	}
	return routes
}

// controlRoutes returns what only the control socket answers.
func (a *API) controlRoutes(l *limits) []route {
	return []route{
		{http.MethodGet, "/v1/unsupervised", a.unsupervised},
		{http.MethodPost, "/v1/reload", a.reload},
		{http.MethodPost, "/v1/notify/test", a.notifyTest},
		{http.MethodGet, "/debug/pprof/{name}", a.profile},
		{http.MethodGet, "/v1/containers/{name}/explain", a.explain},
		{http.MethodGet, "/v1/containers/{name}/records", a.recordList},
		{http.MethodGet, "/v1/containers/{name}/records/{run}", a.flightRecord},
		{http.MethodGet, "/v1/named/{name...}", a.list(l, a.named)},
		{http.MethodPost, "/v1/containers/{name}/restart", a.restart},
		{http.MethodPost, "/v1/containers/{name}/probe", a.probe},
		{http.MethodPut, "/v1/containers/{name}/gates/{type...}", a.gate},
		{http.MethodPost, "/v1/containers/{name}/hold", a.hold},
		{http.MethodPost, "/v1/containers/{name}/resume", a.resume},
		{http.MethodPost, "/v1/fleet/services/{service}/hold", a.fleetHold},
		{http.MethodPost, "/v1/fleet/services/{project}/{service}/hold", a.fleetHold},
		{http.MethodPost, "/v1/fleet/services/{service}/resume", a.fleetResume},
		{http.MethodPost, "/v1/fleet/services/{project}/{service}/resume", a.fleetResume},
	}
}
