package haproxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"healthd/runtime"
)

// application is a server that keeps each request until it is let go.
func application(t *testing.T) (port int, letGo chan struct{}) {
	t.Helper()
	letGo = make(chan struct{})
	port = freePort(t)
	server := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-letGo
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return port, letGo
}

// frontend is where the backend web is asked.
func frontend(port int) string {
	return fmt.Sprintf("frontend www\n  bind 127.0.0.1:%d\n  default_backend web\n", port)
}

// A stop need not wait for longer than until the last request is answered, and does wait
// for that; at every HAProxy.
func TestDrained(t *testing.T) {
	t.Parallel()
	front := []int{freePort(t), freePort(t)}
	port, letGo := application(t)
	b, other := startBalancer(t, dynamic+frontend(front[0])), startBalancer(t, slots+frontend(front[1]))
	b.ports["A"], other.ports["A"] = port, port
	e := b.estate()
	e.begin(b.socket(), other.socket())
	e.is("c1", "A", "up")
	e.is("c2", "B", "up")
	b.shows("web", "c1 A UP 100", "c2 B UP 100", sorry)
	other.ports["B"] = b.ports["B"]
	e.is("c2", "B", "down")
	b.shows("web", "c1 A UP 100", "c2 B DOWN (agent) 100", sorry)
	other.shows("web", sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
	answered := make(chan error, 1)
	go func() {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/slow", front[1]))
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	eventually(t, "the request is under way", func() error { return other.sessions("web-1", 1) })
	e.is("c1", "A", "stopping")
	other.shows("web", sorry, "web-1 A UP 0", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
	time.Sleep(20 * soonAfter) // it is looked at many times
	if runs := e.told(); len(runs) > 0 {
		t.Fatalf("%v is said to be drained while a request is under way", runs)
	}
	close(letGo)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	eventually(t, "it is drained", func() error {
		if got := e.told(); !slices.Contains(got, runtime.Run{ID: "id-c1", Started: 1}) {
			return fmt.Errorf("drained: %v", got)
		}
		return nil
	})
	e.unharmed()
}

// While one HAProxy cannot be heard, nobody knows what it still sends.
func TestNotDrainedWhileOneIsAway(t *testing.T) {
	t.Parallel()
	b, other := startBalancer(t, dynamic), startBalancer(t, dynamic)
	e := b.estate()
	e.begin(b.socket(), other.socket())
	e.is("c1", "A", "up")
	other.ports = b.ports
	b.shows("web", "c1 A UP 100", sorry)
	other.shows("web", "c1 A UP 100", sorry)
	other.end()
	e.records(EventLost, other.socket())
	e.is("c1", "A", "stopping")
	b.shows("web", "c1 A UP 0", sorry)
	time.Sleep(20 * soonAfter)
	if runs := e.told(); len(runs) > 0 {
		t.Errorf("%v is said to be drained", runs)
	}
	other.start()
	eventually(t, "it is drained", func() error {
		if len(e.told()) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// What the process before a reload still finishes, its successor does not know.
func TestNotDrainedAfterReload(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.estate()
	e.lingering = lingering
	e.begin(b.socket())
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	b.reload()
	b.shows("web", "c1 A UP 100", sorry)
	e.is("c1", "A", "stopping")
	b.shows("web", "c1 A UP 0", sorry)
	time.Sleep(20 * soonAfter)
	if runs := e.told(); len(runs) > 0 {
		t.Errorf("%v is said to be drained", runs)
	}
}

func (e *estate) told() []runtime.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.drained)
}

// sessions returns nil when the server has so many.
func (b *balancer) sessions(name string, want int) error {
	backends, err := b.servers("web")
	for _, s := range backends {
		if s.name == name && s.sessions == want {
			return nil
		}
	}
	return fmt.Errorf("not %d sessions, %v", want, err)
}

func TestLastUp(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.tell()
			is := func(name, want string) {
				t.Helper()
				eventually(t, "the last one up", func() error {
					if got := e.h.LastUp("id-" + name); got != want {
						return fmt.Errorf("%s: %q, want %q", name, got, want)
					}
					return nil
				})
			}
			e.is("c1", "A", "up")
			is("c1", "backend web of HAProxy") // the operator's backup does not count
			e.is("c2", "B", "up")
			is("c1", "")
			is("c2", "")
			e.is("c1", "A", "draining")
			is("c2", "backend web of HAProxy")
			e.is("c2", "B", "down")
			is("c2", "")
			is("c1", "")
		})
	}
}
