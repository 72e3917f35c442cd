package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// The grace of a stop by its cause, as the core says it and as the stop call has it.
func TestGrace(t *testing.T) {
	const none = -1 * time.Second
	for _, tt := range []struct {
		name      string
		kubelet   string
		spec      time.Duration // 0: none, as of the probes
		liveness  time.Duration
		startup   time.Duration
		container time.Duration // its own stop timeout
		cause     Cause
		want      time.Duration
	}{
		{"nothing configured", "228", 0, 0, 0, none, ByOperator, DefaultGrace},
		{"no time at all", "228", 0, 0, 0, 0, ByOperator, MinGrace},
		{"less than the least", "228", time.Second, 0, 0, none, ByOperator, MinGrace},
		{"the container's own", "228", 0, 0, 0, 7 * time.Second, ByOperator, 7 * time.Second},
		{"the spec's", "229", time.Minute, 0, 0, none, ByOperator, time.Minute},
		{"the spec's before the container's own", "229", time.Minute, 0, 0, 7 * time.Second, ByOperator, time.Minute},
		{"liveness failed, its probe's is shorter", "230", time.Minute, 10 * time.Second, 0, none, ByLiveness, 10 * time.Second},
		{"startup failed, its probe's is shorter", "231", time.Minute, 0, 10 * time.Second, none, ByStartup, 10 * time.Second},
		{"startup failed, its probe's is longer", "232", 10 * time.Second, 0, time.Minute, none, ByStartup, time.Minute},
		{"liveness failed, its probe's is longer", "233", 10 * time.Second, time.Minute, 0, none, ByLiveness, time.Minute},
		{"another reason, liveness has one", "234", time.Minute, 10 * time.Second, 0, none, ByOperator, time.Minute},
		{"another reason, startup has one", "235", time.Minute, 0, 10 * time.Second, none, ByOperator, time.Minute},
		{"all three, another reason", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByOperator, time.Minute},
		{"all three, startup failed", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByStartup, 10 * time.Second},
		{"all three, liveness failed", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByLiveness, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			w := tale(t, "startup=0s/1s/1/1", "liveness=0s/1s/1/1")
			w.spec.TerminationGracePeriod, w.c.StopTimeout = tt.spec, tt.container
			w.spec.Probes[Startup].TerminationGracePeriod = tt.startup
			w.spec.Probes[Liveness].TerminationGracePeriod = tt.liveness
			if got := grace(w.spec, &w.c, tt.cause); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			graceStop(w, tt.cause)
			if got, want := w.acts(), fmt.Sprintf("STOP grace %v", tt.want); len(got) == 0 || got[0] != want {
				t.Errorf("did %q, want %q\n%s", got, want, w.told.String())
			}
		})
	}
}

// graceStop brings the stop of a run about.
func graceStop(w *world, cause Cause) {
	w.t.Helper()
	lines := map[Cause][]string{
		ByStartup:   {"0s startup fails", "0s runs"},
		ByLiveness:  {"0s liveness fails", "0s runs"},
		ByPostStart: {"post-start=100ms", "0s post-start fails", "0s runs"},
		ByOperator:  {"0s runs", "500ms restart-asked"},
	}
	w.goesOn(append(lines[cause], "600ms")...)
}

// pre_stop is run before every stop of healthd's, within its grace; a container that
// is given no time is stopped without.
func TestPreStopBeforeTheStop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		lines   []string
		cause   Cause
		want    []string
	}{
		{"restart asked for", "238", []string{"grace=30s"}, ByOperator, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"liveness failed", "238", []string{"grace=30s"}, ByLiveness, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"startup failed", "238", []string{"grace=30s"}, ByStartup, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"post_start failed", "238", []string{"grace=30s"}, ByPostStart, []string{"PostStart HOOK within 5m1s", "PreStop HOOK within 30s", "STOP grace 30s"}},
		{"it fails", "238", []string{"grace=30s", "0s pre-stop fails"}, ByOperator, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"no grace", "240", []string{"container-grace=0s"}, ByOperator, []string{"STOP grace 2s"}},
		{"no grace, liveness failed", "240", []string{"container-grace=0s"}, ByLiveness, []string{"STOP grace 2s"}},
		{"no grace of its own, but the spec's", "240", []string{"container-grace=0s", "grace=5s"}, ByOperator, []string{"PreStop HOOK within 5s", "STOP grace 5s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			w := tale(t, append([]string{"startup=0s/1h/1/1", "liveness=0s/1h/1/1", "pre-stop=0s", "stop-takes=1s"}, tt.lines...)...)
			graceStop(w, tt.cause)
			if got := w.acts(); !slices.Equal(got, tt.want) {
				t.Errorf("did %q, want %q\n%s", got, tt.want, w.told.String())
			}
		})
	}
}

// A container that nobody knows cannot be restarted, and the stop of one that is gone
// is an error that is told.
func TestRestartOfWhatIsNotThere(t *testing.T) {
	t.Attr("kubelet", "237")
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.config.Runtimes["docker"] = goneEngine{h.engine}
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "nobody"); !errors.Is(err, ErrUnknownContainer) {
			t.Errorf("restart of a container that nobody knows: %v", err)
		}
		if err := h.Restart(t.Context(), "n-c1"); err != nil {
			t.Errorf("restart of a container whose removal is not known yet: %v", err)
		}
		time.Sleep(6 * time.Second) // the drain
		synctest.Wait()
		if s := h.view(t, "c1").State; !strings.Contains(s.CallError, runtime.ErrNotFound.Error()) {
			t.Errorf("the stop failed, and the error is %q", s.CallError)
		}
		if got, want := h.diary.reasons("n-c1"), []string{EventStarted, EventReady, EventKilling, EventNotReady, EventKilling}; !slices.Equal(got, want) {
			t.Errorf("events %v, want %v: the failed stop, too", got, want)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		for _, name := range []string{"n-c1", "c1"} {
			if err := h.Restart(t.Context(), name); !errors.Is(err, ErrUnknownContainer) {
				t.Errorf("restart of %s, which is gone: %v", name, err)
			}
		}
		late := request{id: "c1", do: (*loop).restart} // asked for when it was still on the board
		if err := h.request(t.Context(), late); !errors.Is(err, ErrUnknownContainer) {
			t.Errorf("a late request: %v", err)
		}
		calls := len(h.engine.madeCalls())
		time.Sleep(time.Minute)
		if got := h.engine.madeCalls(); calls != 1 || len(got) != 1 {
			t.Errorf("calls %v for a container that is gone", got)
		}
	})
}

// goneEngine has lost its containers.
type goneEngine struct{ *memoryEngine }

func (e goneEngine) Stop(_ context.Context, id string, _ time.Duration) error {
	e.note("stop %s", id)
	return fmt.Errorf("cannot stop %s: %w", id, runtime.ErrNotFound)
}

func (e goneEngine) Inspect(_ context.Context, id string) (*runtime.Container, error) {
	return nil, fmt.Errorf("cannot inspect %s: %w", id, runtime.ErrNotFound)
}

// An HTTP hook with the real prober against a real server: it is asked, at its own
// host or at the container's address, before the container is stopped.
func TestPreStopAsksItsHost(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    string
		listens string
	}{
		{"a host of its own", "127.0.0.2", "127.0.0.2:0"},
		{"the container's address", "", "127.0.0.1:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "239")
			asked := make(chan string, 1)
			port := graceServer(t, tt.listens, asked)
			h := open(t, &Spec{
				RestartPolicy: Never, TerminationGracePeriod: 30 * time.Second,
				Lifecycle: Lifecycle{PreStop: &prober.LifecycleHandler{HTTPGet: &prober.HTTPGet{Scheme: "http", Host: tt.host, Port: port, Path: "/bye"}}},
			})
			defer h.close(t)
			h.config.Prober = prober.New(prober.Config{})
			h.engine.called = make(chan string, 10)
			h.synced()
			h.engine.run("c1")
			h.view(t, "c1")
			if err := h.Restart(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			if call := <-h.engine.called; !strings.HasPrefix(call, "stop c1 ") {
				t.Errorf("the first call is %q", call)
			}
			select {
			case got := <-asked:
				if got != "GET /bye" {
					t.Errorf("the server was asked %q", got)
				}
			default:
				t.Error("stopped before the server was asked")
			}
		})
	}
}

// graceServer says on a channel what it is asked, and returns its port.
func graceServer(t *testing.T, address string, asked chan<- string) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().(*net.TCPAddr).Port
}
