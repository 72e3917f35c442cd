package haproxy

import (
	"healthd/e2e/ports"

	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

// application is a server that keeps each request until it is let go.
func application(t *testing.T) (port int, letGo chan struct{}) {
	t.Helper()
	letGo = make(chan struct{})
	port = ports.Free(t)
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

// A stop waits until the last request at every HAProxy is answered, and no longer.
func TestDrained(t *testing.T) {
	t.Parallel()
	front := []int{ports.Free(t), ports.Free(t)}
	port, letGo := application(t)
	b, other := startBalancer(t, dynamic+frontend(front[0])), startBalancer(t, slots+frontend(front[1]))
	b.ports["A"], other.ports["A"] = port, port
	e := b.newSupervisor()
	e.startDaemon(b.socket(), other.socket())
	e.set("c1", "A", "up")
	e.set("c2", "B", "up")
	b.waitForServers("web", "c1 A UP 100", "c2 B UP 100", sorry)
	other.ports["B"] = b.ports["B"]
	other.waitForServers("web", sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 0.0.0.0:0 MAINT 100")
	e.set("c2", "B", "down")
	b.waitForServers("web", "c1 A UP 100", "c2 B DOWN (agent) 100", sorry)
	other.waitForServers("web", sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
	answered := make(chan error, 1)
	go func() {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/slow", front[1]))
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	patience.Until(t, "the request is under way", func() error { return other.sessions("web-1", 1) })
	e.set("c1", "A", "stopping")
	other.waitForServers("web", sorry, "web-1 A UP 0", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
	time.Sleep(20 * pollSoon) // it is looked at many times
	if runs := e.drainedRuns(); len(runs) > 0 {
		t.Fatalf("%v is said to be drained while a request is under way", runs)
	}
	close(letGo)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	patience.Until(t, "it is drained", func() error {
		if got := e.drainedRuns(); !slices.Contains(got, runtime.Run{ID: "id-c1", Started: 1}) {
			return fmt.Errorf("drained: %v", got)
		}
		return nil
	})
	e.noErrors()
}

// The server of a container that was removed goes with its last request: until then HAProxy refuses to delete it.
func TestDeletedAfterItsLastRequest(t *testing.T) {
	t.Parallel()
	front := ports.Free(t)
	port, letGo := application(t)
	b := startBalancer(t, dynamic+frontend(front))
	b.ports["A"] = port
	e := b.newSupervisor()
	e.startDaemon(b.socket())
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	answered := make(chan error, 1)
	go func() {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/slow", front))
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	patience.Until(t, "the request is under way", func() error { return b.sessions("c1", 1) })
	e.set("c1", "A", "gone")
	b.waitForServers("web", "c1 A DOWN (agent) 100", sorry)
	time.Sleep(pollInterval + 20*pollSoon) // it is looked at again, more than once
	b.waitForServers("web", "c1 A DOWN (agent) 100", sorry)
	close(letGo)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	b.waitForServers("web", sorry)
	e.noErrors()
}

// While one HAProxy does not answer, it may still have requests under way.
func TestNotDrainedWhileOneIsAway(t *testing.T) {
	t.Parallel()
	b, other := startBalancer(t, dynamic), startBalancer(t, dynamic)
	e := b.newSupervisor()
	e.startDaemon(b.socket(), other.socket())
	e.set("c1", "A", "up")
	other.ports = b.ports
	b.waitForServers("web", "c1 A UP 100", sorry)
	other.waitForServers("web", "c1 A UP 100", sorry)
	other.kill()
	e.waitForEvent(EventLost, other.socket())
	e.set("c1", "A", "stopping")
	b.waitForServers("web", "c1 A UP 0", sorry)
	time.Sleep(20 * pollSoon)
	if runs := e.drainedRuns(); len(runs) > 0 {
		t.Errorf("%v is said to be drained", runs)
	}
	other.start()
	patience.Until(t, "it is drained", func() error {
		if len(e.drainedRuns()) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// A new process does not know the requests that the old one still has under way.
func TestNotDrainedAfterReload(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.newSupervisor()
	e.lingering = reloadGrace
	e.startDaemon(b.socket())
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	b.reload()
	b.waitForServers("web", "c1 A UP 100", sorry)
	e.set("c1", "A", "stopping")
	b.waitForServers("web", "c1 A UP 0", sorry)
	time.Sleep(20 * pollSoon)
	if runs := e.drainedRuns(); len(runs) > 0 {
		t.Errorf("%v is said to be drained", runs)
	}
}

func (e *fakeSupervisor) drainedRuns() []runtime.Run {
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
			e := b.startPushing()
			is := func(name, want string) {
				t.Helper()
				patience.Until(t, "the last one up", func() error {
					if got := e.h.LastUp("id-" + name); got != want {
						return fmt.Errorf("%s: %q, want %q", name, got, want)
					}
					return nil
				})
			}
			e.set("c1", "A", "up")
			is("c1", "backend web of HAProxy") // the operator's backup does not count
			e.set("c2", "B", "up")
			is("c1", "")
			is("c2", "")
			e.set("c1", "A", "draining")
			is("c2", "backend web of HAProxy")
			e.set("c2", "B", "down")
			is("c2", "")
			is("c1", "")
		})
	}
}

// While another server is about to be up, none is the last one: neither before healthd has looked at
// HAProxy again, nor in the look that brings it up.
func TestNotLastUpAtAHandOver(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	patience.Until(t, "the last one up", func() error {
		if e.h.LastUp("id-c1") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	e.set("c2", "B", "up")
	patience.Until(t, "both up", func() error {
		if last := e.h.LastUp("id-c1"); last != "" {
			t.Fatalf("with another server on its way, it is the last one up in %s", last)
		}
		servers, err := b.servers("web")
		if err != nil {
			return err
		}
		up := slices.DeleteFunc(servers, func(s *server) bool { return !s.takesTraffic() })
		if len(up) < 2 {
			return fmt.Errorf("%d servers are up", len(up))
		}
		return nil
	})
}
