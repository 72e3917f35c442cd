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
	"healthd/supervisor/core"
)

// An unknown container cannot be restarted. When the engine no longer has the container, none
// is stopped, and that is recorded.
func TestRestartOfAMissingContainer(t *testing.T) {
	t.Attr("kubelet", "237")
	playWith(t, webSpec(), nil, func(h *harness) {
		h.config.Runtimes["docker"] = emptyEngine{h.engine}
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(h.t.Context(), "nobody"); !errors.Is(err, ErrUnknownContainer) {
			h.t.Errorf("restart of a container that does not exist: %v", err)
		}
		if err := h.Restart(h.t.Context(), "n-c1"); err != nil {
			h.t.Errorf("restart of a container whose removal healthd has not seen yet: %v", err)
		}
		time.Sleep(6 * time.Second) // the drain
		synctest.Wait()
		if s := h.view("c1").State; !strings.Contains(s.Request.Error, runtime.ErrNotFound.Error()) {
			h.t.Errorf("the look before the stop failed, and the error is %q", s.Request.Error)
		}
		if got, want := h.journal.reasons("n-c1"), []string{core.EventStarted, core.EventReady, core.EventKilling, core.EventNotReady, core.EventKilling}; !slices.Equal(got, want) {
			h.t.Errorf("events %v, want %v: the failed look, too", got, want)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		for _, name := range []string{"n-c1", "c1"} {
			if err := h.Restart(h.t.Context(), name); !errors.Is(err, ErrUnknownContainer) {
				h.t.Errorf("restart of %s, which was removed: %v", name, err)
			}
		}
		late := request{id: "c1", do: (*loop).restart} // made while the board still showed it
		if err := h.request(h.t.Context(), late); !errors.Is(err, ErrUnknownContainer) {
			h.t.Errorf("a late request: %v", err)
		}
		time.Sleep(time.Minute)
		if got := h.engine.calls(); len(got) > 0 {
			h.t.Errorf("calls %v for a removed container", got)
		}
	})
}

// emptyEngine has no containers.
type emptyEngine struct{ *fakeEngine }

func (e emptyEngine) Stop(_ context.Context, id string, _ time.Duration) error {
	e.noteCall("stop %s", id)
	return fmt.Errorf("cannot stop %s: %w", id, runtime.ErrNotFound)
}

func (e emptyEngine) Inspect(_ context.Context, id string) (*runtime.Container, error) {
	return nil, fmt.Errorf("cannot inspect %s: %w", id, runtime.ErrNotFound)
}

// An HTTP hook runs with the real prober against a real server. It is sent to its own
// host or to the container's address, before the stop.
func TestPreStopHTTPHost(t *testing.T) {
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
			port := hookServer(t, tt.listens, asked)
			h := newHarness(t, &core.Spec{
				RestartPolicy: core.Never, TerminationGracePeriod: 30 * time.Second,
				Lifecycle: core.Lifecycle{PreStop: &prober.LifecycleHandler{HTTPGet: &prober.HTTPGet{Scheme: "http", Host: tt.host, Port: port, Path: "/bye"}}},
			})
			defer h.close()
			h.config.Prober = prober.New(prober.Config{})
			h.engine.called = make(chan string, 10)
			h.sendSynced()
			h.engine.tellRun("c1")
			h.view("c1")
			if err := h.Restart(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			if call := <-h.engine.called; !strings.HasPrefix(call, "stop c1 ") {
				t.Errorf("the first call is %q", call)
			}
			select {
			case got := <-asked:
				if got != "GET /bye" {
					t.Errorf("the server got %q", got)
				}
			default:
				t.Error("stopped before the server got the request")
			}
		})
	}
}

// hookServer sends each request to a channel, and returns its port.
func hookServer(t *testing.T, address string, asked chan<- string) int {
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
