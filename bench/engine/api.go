package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"
)

const (
	image   = "registry.example/bench:1"
	version = "1.51"

	hostNetwork = "host"
)

// calls counts the requests by kind.
type calls struct {
	mu     sync.Mutex
	byKind map[string]int
}

func (c *calls) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKind == nil {
		c.byKind = map[string]int{}
	}
	c.byKind[kind]++
}

// Serve answers on the listener until ctx ends.
func (e *Engine) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{Handler: e.Handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	err := server.Serve(ln)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Handler answers Docker's API, with or without a version before the path, and, below /bench, what a
// measurement asks of the engine:
//
//	POST /bench/crash/NAME   the container ends with code 1, without a signal from the engine
//	POST /bench/away?for=D   all connections are closed, and for that long no new one is answered
//	GET  /bench/calls        how many requests there were, by kind
//	GET  /bench/acts         the Acts since the last such request, as a JSON array
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, path, kind string, h http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			e.calls.count(kind)
			h(w, r)
		})
	}
	handle("GET", "/_ping", "ping", e.ping)
	handle("GET", "/info", "info", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, system.Info{}) })
	handle("GET", "/events", "events", e.events)
	mux.HandleFunc("GET /containers/json", e.list)
	handle("GET", "/containers/{id}/json", "inspect", e.with(e.inspect))
	handle("POST", "/containers/create", "create", e.create)
	handle("POST", "/containers/{id}/start", "start", e.with(e.changing(Start, e.start)))
	handle("POST", "/containers/{id}/stop", "stop", e.with(e.changing(Stop, e.stop)))
	handle("DELETE", "/containers/{id}", "remove", e.with(e.removeContainer))
	handle("POST", "/containers/{id}/exec", "exec create", e.with(e.execCreate))
	handle("POST", "/exec/{id}/start", "exec start", e.execStart)
	handle("GET", "/exec/{id}/json", "exec inspect", e.execInspect)
	mux.HandleFunc("POST /bench/crash/{id}", e.with(func(w http.ResponseWriter, _ *http.Request, i *instance) {
		if i.running {
			e.end(i, 1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("POST /bench/away", e.away)
	mux.HandleFunc("GET /bench/calls", func(w http.ResponseWriter, _ *http.Request) {
		e.calls.mu.Lock()
		defer e.calls.mu.Unlock()
		answer(w, http.StatusOK, e.calls.byKind)
	})
	mux.HandleFunc("GET /bench/acts", e.takeActs)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fail(w, http.StatusNotFound, "page not found") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); ok && strings.HasPrefix(first, "v1.") {
			r.URL.Path = "/" + rest
		}
		e.mu.Lock()
		down := e.down && !strings.HasPrefix(r.URL.Path, "/bench/")
		e.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler) // as if nobody listened
		}
		mux.ServeHTTP(w, r)
	})
}

func (e *Engine) away(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || d <= 0 || d > time.Minute {
		fail(w, http.StatusBadRequest, "for must be a duration of at most 1m")
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = true
	for l := range e.listeners {
		delete(e.listeners, l)
		close(l.messages)
	}
	time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.down = false
	})
	w.WriteHeader(http.StatusNoContent)
}

func (e *Engine) ping(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Api-Version", version)
	w.Header().Set("Ostype", "linux")
	fmt.Fprint(w, "OK")
}

// with finds the container and holds mu.
func (e *Engine) with(h func(http.ResponseWriter, *http.Request, *instance)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		i := e.find(r.PathValue("id"))
		if i == nil {
			fail(w, http.StatusNotFound, "No such container: "+r.PathValue("id"))
			return
		}
		h(w, r, i)
	}
}

// changing answers a request for a change that may be none, and notes whose it was.
func (e *Engine) changing(kind string, change func(*instance) bool) func(http.ResponseWriter, *http.Request, *instance) {
	return func(w http.ResponseWriter, r *http.Request, i *instance) {
		if !change(i) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		e.noteAct(r, kind, i)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (e *Engine) removeContainer(w http.ResponseWriter, r *http.Request, i *instance) {
	if i.running && r.URL.Query().Get("force") == "" {
		fail(w, http.StatusConflict, "cannot remove container "+i.name+": it is running")
		return
	}
	e.remove(i)
	w.WriteHeader(http.StatusNoContent)
}

func (e *Engine) list(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Query().Get("filters"), `"label"`) { // healthd asks for one that none has
		e.calls.count("list by label")
		answer(w, http.StatusOK, []container.Summary{})
		return
	}
	e.calls.count("list")
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	all := make([]container.Summary, 0, len(e.containers))
	for _, i := range e.containers {
		s := container.Summary{
			ID: i.id, Names: []string{"/" + i.name}, Image: image, ImageID: "sha256:" + hash("image", 0), Command: "/serve",
			Created: i.created.Unix(), Labels: i.labels, State: i.status(), Status: i.statusText(now),
		}
		s.HostConfig.NetworkMode = hostNetwork
		s.NetworkSettings = &container.NetworkSettingsSummary{Networks: i.networks()}
		all = append(all, s)
	}
	answer(w, http.StatusOK, all)
}

func (i *instance) statusText(now time.Time) string {
	switch {
	case i.running:
		return "Up " + units.HumanDuration(now.Sub(i.started))
	case i.started.IsZero():
		return "Created"
	}
	return fmt.Sprintf("Exited (%d) %s ago", i.exitCode, units.HumanDuration(now.Sub(i.finished)))
}

func (i *instance) networks() map[string]*network.EndpointSettings {
	s := &network.EndpointSettings{NetworkID: hash("network", 0)}
	if i.running {
		s.EndpointID = hash("endpoint "+i.id, 0)
	}
	return map[string]*network.EndpointSettings{hostNetwork: s}
}

func (e *Engine) inspect(w http.ResponseWriter, _ *http.Request, i *instance) {
	state := &container.State{Status: i.status(), Running: i.running, ExitCode: i.exitCode, StartedAt: stamp(i.started), FinishedAt: stamp(i.finished)}
	if i.running {
		state.Pid = os.Getpid()
	}
	answer(w, http.StatusOK, container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: i.id, Name: "/" + i.name, Created: stamp(i.created), Path: "/serve", Image: "sha256:" + hash("image", 0), State: state,
			HostConfig: &container.HostConfig{NetworkMode: hostNetwork, RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled}},
		},
		Config:          &container.Config{Image: image, Labels: i.labels, Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}},
		NetworkSettings: &container.NetworkSettings{Networks: i.networks()},
	})
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (e *Engine) create(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	var body struct{ Labels map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || name == "" {
		fail(w, http.StatusBadRequest, "a name and labels are needed")
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName[name] != nil {
		fail(w, http.StatusConflict, "the name is in use")
		return
	}
	i := e.add(name, body.Labels)
	e.tell(i, "create", nil)
	answer(w, http.StatusCreated, container.CreateResponse{ID: i.id})
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func fail(w http.ResponseWriter, status int, message string) {
	answer(w, status, types.ErrorResponse{Message: message})
}
