package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

var (
	libpodStart = time.Unix(1000, 123456789)
	libpodEnd   = libpodStart.Add(time.Hour)
	libpodRun   = runtime.Run{ID: "c1", Started: libpodStart.UnixNano()}
)

// fakeLibpod is an engine that knows one container.
type fakeLibpod struct {
	version string // of its own API; empty: it has none
	answer  string // of that API
	status  int
	hangs   func()      // says that it was asked and does not answer; may be nil
	kills   []time.Time // of the events
	longLog bool        // the events take too long

	asked atomic.Int32 // how often that API was asked
}

// stopped returns the answer of a container that ended, with changes of its state and its stop signal.
func stopped(state map[string]any, signal any) string {
	all := map[string]any{"Status": "exited", "StoppedByUser": true, "StartedAt": libpodStart, "FinishedAt": libpodEnd, "ExitCode": 137}
	for k, v := range state {
		all[k] = v
	}
	text, err := json.Marshal(map[string]any{"State": all, "Config": map[string]any{"StopSignal": signal}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (f *fakeLibpod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", oldestAPI)
	if f.version != "" {
		w.Header().Set("Libpod-Api-Version", f.version)
	}
	switch path := r.URL.EscapedPath(); {
	case strings.HasSuffix(path, "/_ping"):
	case strings.HasSuffix(path, "/events") && f.longLog:
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(path, "/events"):
		// Podman ends an answer at until, whether it has read its log or not.
		if q := r.URL.Query(); f.version != "" && (q.Has("until") || q.Get("stream") != "false") || f.version == "" && !q.Has("until") {
			http.Error(w, "asked for "+r.URL.RawQuery, http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"Type":"container","Action":"start","Actor":{"ID":"c1"},"timeNano":%d}`, libpodStart.UnixNano()+1000)
		for _, at := range f.kills {
			fmt.Fprintf(w, `{"Type":"container","Action":"kill","Actor":{"ID":"c1"},"timeNano":%d}`, at.UnixNano())
		}
	case strings.Contains(path, "/libpod/"):
		f.asked.Add(1)
		if f.hangs != nil {
			f.hangs()
			<-r.Context().Done()
			return
		}
		if path != "/v"+f.version+"/libpod/containers/c1/json" {
			http.Error(w, "asked for "+path, http.StatusInternalServerError)
			return
		}
		w.WriteHeader(f.status)
		fmt.Fprint(w, f.answer)
	default:
		http.Error(w, "asked for "+path, http.StatusInternalServerError)
	}
}

// serve returns a client of the engine.
func (f *fakeLibpod) serve(t *testing.T) *Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd") // not t.TempDir: a Unix socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: listener, Config: &http.Server{Handler: f}}
	srv.Start()
	t.Cleanup(srv.Close)
	e, err := New(Config{Endpoint: "unix://" + filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestLibpodTellsWhoEndedARun(t *testing.T) {
	type state = map[string]any
	before := func(d time.Duration) []time.Time { return []time.Time{libpodEnd.Add(-d)} }
	for _, tt := range []struct {
		name   string
		answer string
		kills  []time.Time
		want   int // the signal that ended the run; 0: none
	}{
		{"a stop", stopped(nil, "SIGTERM"), nil, 15},
		{"a stop that the process handles", stopped(state{"ExitCode": 3}, "SIGTERM"), nil, 15},
		{"a stop with another signal", stopped(nil, "SIGRTMIN+3"), nil, 37},
		{"a stop with another signal, by number", stopped(nil, 10), nil, 10},
		{"a stop, not yet tidied up", stopped(state{"Status": "stopped"}, "SIGTERM"), nil, 15},
		{"a stop that is not over", stopped(state{"Status": "stopping", "FinishedAt": time.Time{}}, "SIGTERM"), nil, 0},
		{"a crash", stopped(state{"StoppedByUser": false}, "SIGTERM"), nil, 0},
		{"a release that does not tell", `{"State":{"Status":"exited"},"Config":{"StopSignal":15}}`, nil, 0},
		{"another run", stopped(state{"StartedAt": libpodStart.Add(1)}, "SIGTERM"), nil, 0},
		{"the next run goes on", stopped(state{"StoppedByUser": false, "Status": "running", "StartedAt": libpodEnd.Add(1)}, "SIGTERM"), nil, 0},
		{"a kill", stopped(nil, "SIGTERM"), before(time.Second), 15},
		{"a kill that the process handles", stopped(state{"ExitCode": 3}, "SIGTERM"), before(time.Second), 15},
		{"a kill, and the clock was set back", stopped(state{"ExitCode": 3}, "SIGTERM"), before(-time.Minute), 15},
		{"HUP, and a crash later", stopped(state{"ExitCode": 1}, "SIGTERM"), before(time.Minute), 0},
		{"HUP, and killed for want of memory later", stopped(state{"OOMKilled": true}, "SIGTERM"), before(time.Minute), 0},
		{"HUP, and a stop later", stopped(state{"ExitCode": 0}, "SIGTERM"), before(time.Minute), 15},
		{"HUP, and a stop by signal later", stopped(state{"ExitCode": 130}, "SIGINT"), before(time.Minute), 2},
		{"HUP, and a stop by force later", stopped(nil, "SIGTERM"), before(time.Minute), 15},
		{"HUP, and a kill later", stopped(state{"ExitCode": 1}, "SIGTERM"), append(before(time.Minute), before(time.Second)...), 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeLibpod{version: "5.4.2", answer: tt.answer, status: http.StatusOK, kills: tt.kills}
			e := f.serve(t)
			var want []runtime.Event
			if tt.want != 0 {
				want = append(want, runtime.Event{Action: runtime.ActionKill, Signal: tt.want, Time: libpodEnd})
			}
			for range 2 { // the same answer each time, or one stop would count as two
				got, err := e.KillEvents(t.Context(), libpodRun)
				same := func(a, b runtime.Event) bool {
					return a.ID == "c1" && a.Action == b.Action && a.Signal == b.Signal && a.Time.Equal(b.Time)
				}
				if err != nil || !slices.EqualFunc(got, want, same) {
					t.Errorf("got %+v, %v; want %+v", got, err, want)
				}
			}
		})
	}
}

// Docker is not asked for what only Podman has, and the ID is no path.
func TestLibpodIsAskedOnlyWhereItIs(t *testing.T) {
	f := &fakeLibpod{answer: stopped(nil, "SIGTERM"), status: http.StatusOK}
	if got, err := f.serve(t).KillEvents(t.Context(), libpodRun); len(got) > 0 || err != nil || f.asked.Load() > 0 {
		t.Errorf("Docker: got %+v, %v, asked %d times", got, err, f.asked.Load())
	}
	f = &fakeLibpod{version: "5.4.2", status: http.StatusOK}
	_, err := f.serve(t).KillEvents(t.Context(), runtime.Run{ID: "../a?b", Started: 1})
	want := "cannot ask Podman who ended a run: asked for /v5.4.2/libpod/containers/..%2Fa%3Fb/json: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Podman's log of events has no limit, and may take longer to read than anybody waits. Who stopped the
// run is known without it.
func TestLibpodTellsWithoutTheLog(t *testing.T) {
	for code, state := range map[int]map[string]any{137: {}, 3: {"ExitCode": 3}} {
		f := &fakeLibpod{version: "5.4.2", answer: stopped(state, "SIGTERM"), status: http.StatusOK, longLog: true}
		e, most := f.serve(t), time.Second // half of it is for the log
		patience.Until(t, "the signal is known", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			most *= 3
			if got, err := e.KillEvents(ctx, libpodRun); err != nil || len(got) != 1 || got[0].Signal != 15 {
				return fmt.Errorf("exit code %d: got %+v, %v", code, got, err)
			}
			return nil
		})
	}
}

// A proxy that forbids the question, or a container that is gone, tells nothing. It is an error when the
// engine fails, or does not answer in time.
func TestLibpodDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		hangs  bool
		fails  bool
	}{
		{"forbidden", http.StatusForbidden, false, false},
		{"gone", http.StatusNotFound, false, false},
		{"fails", http.StatusInternalServerError, false, true},
		{"no JSON", http.StatusOK, false, true},
		{"hangs", 0, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := &fakeLibpod{version: "5.4.2", status: tt.status, answer: "no"}
			if tt.hangs {
				f.hangs = cancel
			}
			got, err := f.serve(t).KillEvents(ctx, libpodRun)
			if (err != nil) != tt.fails || len(got) != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
