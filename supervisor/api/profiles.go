package api

import (
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
)

// profileSeconds is how long a CPU profile takes by itself. pprof's own 30 s exceed what Serve gives an answer.
const profileSeconds = "20"

// profile answers what `go tool pprof` reads. Profiles name functions of healthd and show none of its data, but
// collecting one costs CPU: only the control socket has them.
func (a *API) profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("name"); {
	case name == "profile":
		if q := r.URL.Query(); !q.Has("seconds") {
			q.Set("seconds", profileSeconds)
			r.URL.RawQuery = q.Encode()
		}
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case runtimepprof.Lookup(name) != nil:
		pprof.Handler(name).ServeHTTP(w, r)
	default:
		a.notFound(w, r)
	}
}
