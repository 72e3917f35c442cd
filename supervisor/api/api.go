// Package api is healthd's HTTP API: readiness, status and events, and on the control socket
// also requests that change something. The command line is its client.
//
//	network         ── ReadOnly ──▶ Board (containers, services, readiness), History (events), Fleet (other hosts)
//	control socket  ── Control  ──▶ the same, and Controller: restart, hold, resume, gate, probe; Fleet: hold, resume
//
// It keeps no state. What a request does is decided by package supervisor.
package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/api/page"
	"healthd/supervisor/core"
)

// Controller is what the control socket and /livez need of the supervisor.
type Controller interface {
	Ping(ctx context.Context) error
	Restart(ctx context.Context, name string) error
	SetGate(ctx context.Context, name, gate string, status bool) error
	Hold(ctx context.Context, name string, until time.Time) error
	Resume(ctx context.Context, name string) error
	Ask(ctx context.Context, name string, t core.ProbeType) (prober.Result, error)
}

// History is what the API needs of the journal.
type History interface {
	// Events returns the kept events that are not older than since, oldest first; of all
	// containers when container is empty.
	Events(container string, since time.Time) []core.Event
	// Last returns the number of the newest event.
	Last() uint64
	// After returns the first events after a number, the number up to which these are all, and
	// a channel that is closed when there are more.
	After(seq uint64) ([]core.Event, uint64, <-chan struct{})
}

// Config is what an API answers from. Metrics, Warnings, Checked and TraefikAsks may be nil.
type Config struct {
	Board      *supervisor.Board
	History    History
	Controller Controller
	Records    Records // nil: there are none
	Metrics    http.Handler
	Warnings   func() []string // of the daemon; from any goroutine
	// Unsupervised asks the engines for the containers that healthd leaves alone.
	Unsupervised func(context.Context) Unsupervised
	// Reload reads the configuration again and returns when it is in force, or why it is not.
	Reload func(context.Context) (Reload, *ReloadError)
	// NotifyTest sends a test message to the receiver of that name, or to all if name is empty. The error says that
	// there is none.
	NotifyTest func(ctx context.Context, name string) ([]NotifyTest, error)
	// Report returns how healthy a service was since a time, or all are if its name is empty. An error is
	// supervisor.ErrUnknownService or a *supervisor.AmbiguousServiceError. nil: there is no such path.
	Report func(service string, since time.Time) (Report, error)
	// Fleet are the hosts that share their members over etcd. nil: this one is in no fleet.
	Fleet Fleet
	// Checked is called when a readiness check of HAProxy says in its header
	// X-Haproxy-Server-State how HAProxy sees the server, and comes from one of ChecksFrom.
	Checked    func(id, state string)
	ChecksFrom []netip.Prefix
	// TraefikAsks is called at each request of Traefik's HTTP provider.
	TraefikAsks func()
}

// API holds the handlers of both listeners.
type API struct {
	board      *supervisor.Board
	history    History
	controller Controller
	recorder   Records
	metrics    http.Handler
	warnings   func() []string
	reloader   func(context.Context) (Reload, *ReloadError)
	testNotify func(ctx context.Context, name string) ([]NotifyTest, error)
	bystanders func(context.Context) Unsupervised
	report     func(service string, since time.Time) (Report, error)
	fleet      Fleet
	listing    chan struct{} // has room for the one request of them
	checked    func(id, state string)
	asked      func() // by Traefik
	checksFrom []netip.Prefix
	heartbeat  time.Duration // of event streams
	waiting    chan struct{} // one for each check that waits; see await
	// Header values are made once: load balancers send many checks.
	plainType, jsonType, nosniff, noStore []string
}

// New returns the API of c.
func New(c Config) *API {
	return &API{
		board: c.Board, history: c.History, controller: c.Controller, recorder: c.Records, metrics: c.Metrics, warnings: c.Warnings, reloader: c.Reload, testNotify: c.NotifyTest, bystanders: c.Unsupervised, report: c.Report, fleet: c.Fleet, listing: make(chan struct{}, 1), checked: c.Checked, asked: c.TraefikAsks, checksFrom: c.ChecksFrom,
		heartbeat: 15 * time.Second,
		waiting:   make(chan struct{}, maxWaiting),
		plainType: []string{"text/plain; charset=utf-8"},
		jsonType:  []string{"application/json"},
		nosniff:   []string{"nosniff"},
		noStore:   []string{"no-store"},
	}
}

// ReadOnly returns the handler for the network. It changes nothing. It answers GET, HEAD and
// OPTIONS alike: HAProxy's checks use OPTIONS by default.
func (a *API) ReadOnly() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.readOnlyRoutes(newLimits()) {
		mux.HandleFunc(r.pattern, r.handler)
	}
	mux.HandleFunc("/", a.notFound)

	return a.rejectUnclean(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
		default:
			// The control socket has more below a container.
			if _, pattern := mux.Handler(r); pattern == "/" && !strings.HasPrefix(r.URL.Path, "/v1/ready/") && !strings.HasPrefix(r.URL.Path, "/v1/containers/") {
				a.notFound(w, r)
				return
			}
			a.wrongMethod(w, "GET, HEAD, OPTIONS")
			return
		}
		if name, ok := readyName(r.URL.Path); ok {
			a.ready(w, r, name)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// rejectUnclean answers 404 for paths with dots and empty parts: the router would redirect
// them with an HTML page.
func (a *API) rejectUnclean(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path {
			a.notFound(w, r)
			return
		}
		h(w, r)
	})
}

// index answers with the page to browsers, and with a list of the paths to those who do not ask for HTML.
func (a *API) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		page.Serve(w, r, page.Index)
		return
	}
	a.text(w, http.StatusOK, `healthd

/livez                       200 while the main loop of healthd runs
/readyz                      200 after the first full list from each engine
/v1/ready/NAME               200 if the container is ready, 404 if it drains, else 503
/v1/ready/SERVICE/NAME       the same
/v1/services                 the services and their endpoints
/v1/services/SERVICE         one service
/v1/services/SERVICE/ready   200 if one endpoint is ready; ?min=N: if N are
/v1/discovery/traefik        the services with their ready endpoints, for Traefik's HTTP provider
/v1/discovery/prometheus     all endpoints, for Prometheus' http_sd_configs
/v1/containers               the containers and their health
/v1/containers/NAME          one container
/v1/containers/NAME/timeline its last hour
/v1/overview                 the containers at a glance, as the page in a browser shows them
/v1/daemon                   warnings about the host, load balancers and receivers
/v1/events                   the history; ?since=10m&container=NAME
/v1/report                   how healthy services were; ?since=7d&service=SERVICE
/v1/fleet                    the hosts that share their containers over etcd
/metrics                     for Prometheus
/v1/openapi.json             all of this for programs: OpenAPI 3.1
`)
}

// pageFile answers with a file that the page asks for.
func (a *API) pageFile(w http.ResponseWriter, r *http.Request) {
	if !page.Serve(w, r, r.PathValue("file")) {
		a.fail(w, http.StatusNotFound, "the page has no such file: "+r.PathValue("file"))
	}
}

// livez asks the supervisor's loop, not just this listener.
func (a *API) livez(w http.ResponseWriter, r *http.Request) {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := a.controller.Ping(ctx); err != nil {
		a.text(w, http.StatusServiceUnavailable, "not alive: the main loop does not answer: "+err.Error()+"\n")
		return
	}
	a.text(w, http.StatusOK, "ok\n")
}

// readyz stays 200 when a runtime is lost later, because its last state stays published. The
// body names the lost runtime. Before the first sync it has Retry-After while no engine is known
// to be away.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) {
	if a.board.Synced() {
		text := "ok\n"
		for _, r := range a.board.Runtimes() {
			if !r.Up && r.Err != nil {
				text += "healthd cannot reach runtime " + r.Name + ": " + r.Err.Error() + "\n"
			}
		}
		a.text(w, http.StatusOK, text)
		return
	}
	text, soon := "not ready: waiting for the first full list from", true
	for _, r := range a.board.Runtimes() {
		if r.Synced {
			continue
		}
		text += " " + r.Name
		if r.Err != nil {
			soon = false
			text += " (" + r.Err.Error() + ")"
		}
	}
	if soon {
		w.Header().Set("Retry-After", "1")
	}
	a.text(w, http.StatusServiceUnavailable, text+"\n")
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	a.fail(w, http.StatusNotFound, "no such path: "+r.URL.Path)
}

func (a *API) wrongMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	a.fail(w, http.StatusMethodNotAllowed, "method not allowed: use "+allowed)
}

// header sets the headers of every answer. Labels and the output of probes come from the
// containers: no browser may take them for HTML.
func (a *API) header(w http.ResponseWriter, contentType []string) {
	h := w.Header()
	h["Content-Type"] = contentType
	h["X-Content-Type-Options"] = a.nosniff
	h["Cache-Control"] = a.noStore
}

func (a *API) text(w http.ResponseWriter, status int, body string) {
	a.header(w, a.plainType)
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func (a *API) json(w http.ResponseWriter, status int, body any) {
	a.header(w, a.jsonType)
	w.WriteHeader(status)
	// An error here means that the reader has gone.
	_ = json.NewEncoder(supervisor.Escaping{To: w}).Encode(body)
}

// Error is the body of an answer that is not a success.
type Error struct {
	Error string `json:"error"`
}

func (a *API) fail(w http.ResponseWriter, status int, message string) {
	a.json(w, status, Error{message})
}
