package haproxy

import (
	"healthd/e2e/ports"

	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
)

// elsewhere is a container of host h2 in the service web.
func elsewhere(backend, name string, port int, what string) supervisor.Member {
	id := "h2/id-" + name
	m := supervisor.Member{
		Host: "h2", Container: name, ID: id, Run: runtime.Run{ID: id, Started: 1}, Service: "web", Backend: backend, Address: "127.0.0.1", Port: port,
	}
	switch what {
	case "up":
		m.Ready = true
	case "stopping":
		m.Draining, m.DrainingReady, m.AwaitsDrain = true, true, true
	}
	return m
}

// setThere is set for a container of host h2.
func (e *fakeSupervisor) setThere(backend, name, letter, what string) {
	m := elsewhere(backend, name, e.b.port(letter), what)
	e.mu.Lock()
	e.remote[m.ID] = m
	if what == "gone" {
		delete(e.remote, m.ID)
	}
	e.mu.Unlock()
	e.updateBoard(m.ID)
}

// A container of another host gets requests, drains and goes as one of this host does.
func TestMembersOfOtherHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config                      string
		both, down, draining, alone []string
	}{
		"dynamic": {
			dynamic, []string{"c1 A UP 100", "h2:c1 B UP 100", sorry}, []string{"c1 A UP 100", "h2:c1 B DOWN (agent) 100", sorry},
			[]string{"c1 A UP 100", "h2:c1 B UP 0", sorry}, []string{"c1 A UP 100", sorry},
		},
		"slots": {
			slots, []string{sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 0.0.0.0:0 MAINT 100"}, []string{sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100"},
			[]string{sorry, "web-1 A UP 100", "web-2 B UP 0", "web-3 0.0.0.0:0 MAINT 100"}, []string{sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := ports.Free(t)
			port, letGo := application(t)
			b := startBalancer(t, tt.config+frontend(front))
			b.ports["B"] = port
			e := b.startPushing()
			e.set("c1", "A", "up")
			b.waitForServers("web", tt.alone...)
			e.setThere("web", "c1", "B", "up")
			b.waitForServers("web", tt.both...)
			e.setThere("web", "c1", "B", "down")
			b.waitForServers("web", tt.down...)
			e.setThere("web", "c1", "B", "up")
			e.set("c1", "A", "down")
			patience.Until(t, "it is the last one up", func() error {
				if got := e.h.LastUp("h2/id-c1"); got != "backend web of HAProxy" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			answered := make(chan error, 1)
			go func() {
				response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/slow", front))
				if err == nil {
					response.Body.Close()
				}
				answered <- err
			}()
			server := map[string]string{"dynamic": "h2:c1", "slots": "web-2"}[name]
			patience.Until(t, "the request is under way", func() error { return b.sessions(server, 1) })
			e.set("c1", "A", "up")
			e.setThere("web", "c1", "B", "stopping")
			b.waitForServers("web", tt.draining...)
			time.Sleep(20 * pollSoon) // it is looked at many times
			if runs := e.drainedRuns(); len(runs) > 0 {
				t.Fatalf("%v is said to be drained while a request is under way", runs)
			}
			close(letGo)
			if err := <-answered; err != nil {
				t.Error(err)
			}
			e.waitForDrained(runtime.Run{ID: "h2/id-c1", Started: 1})
			e.setThere("web", "c1", "B", "gone")
			b.waitForServers("web", tt.alone...)
			if runs := e.unservedRuns(); len(runs) > 0 {
				t.Errorf("%v is said not to be served", runs)
			}
			e.noErrors()
		})
	}
}

func (e *fakeSupervisor) waitForDrained(run runtime.Run) {
	e.t.Helper()
	patience.Until(e.t, "it is drained", func() error {
		if got := e.drainedRuns(); !slices.Contains(got, run) {
			return fmt.Errorf("drained: %v", got)
		}
		return nil
	})
}

func (e *fakeSupervisor) unservedRuns() []runtime.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.unserved)
}

// A run whose backend no HAProxy has is not served, once all have said so. One that some have is drained, when those say so.
func TestNotServed(t *testing.T) {
	t.Parallel()
	b, other := startBalancer(t, dynamic), startBalancer(t, dynamic+"backend api\n  server sorry 127.0.0.9:81 backup\n")
	e := b.newSupervisor()
	e.startDaemon(b.socket(), other.socket())
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	other.ports = b.ports
	other.waitForServers("web", "c1 A UP 100", sorry)
	other.kill()
	e.waitForEvent(EventLost, other.socket())
	e.setThere("none", "c2", "B", "stopping")
	e.setThere("api", "c3", "C", "stopping")
	e.setIn("none", "c4", "127.0.0.1", b.port("D"), "stopping")
	e.waitForEvent(EventError, "there is no backend none")
	time.Sleep(20 * pollSoon)
	if runs := append(e.unservedRuns(), e.drainedRuns()...); len(runs) > 0 {
		t.Fatalf("%v: one HAProxy is away", runs)
	}
	other.start()
	e.waitForDrained(runtime.Run{ID: "h2/id-c3", Started: 1})
	patience.Until(t, "they are not served", func() error {
		got := e.unservedRuns()
		for _, id := range []string{"h2/id-c2", "id-c4"} {
			if !slices.Contains(got, runtime.Run{ID: id, Started: 1}) {
				return fmt.Errorf("not served: %v", got)
			}
		}
		return nil
	})
	if slices.ContainsFunc(e.unservedRuns(), func(r runtime.Run) bool { return r.ID == "h2/id-c3" }) {
		t.Error("one that an HAProxy has is said not to be served")
	}
	if slices.ContainsFunc(e.drainedRuns(), func(r runtime.Run) bool { return r.ID != "h2/id-c3" }) {
		t.Errorf("drained: %v", e.drainedRuns())
	}
}

// A new daemon takes no server of another host's away before it knows what there is.
func TestServersStayUntilFleetIsKnown(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.newSupervisor()
	end := e.startDaemon(b.socket())
	e.set("c1", "A", "up")
	e.set("c9", "C", "up")
	e.setThere("web", "c1", "B", "up")
	b.waitForServers("web", "c1 A UP 100", "c9 C UP 100", "h2:c1 B UP 100", sorry)
	end()
	e.fleet = true
	e.forget("c9")
	e.mu.Lock()
	clear(e.remote)
	e.mu.Unlock()
	e.startDaemon(b.socket())
	e.set("c1", "A", "down")
	b.waitForServers("web", "c1 A DOWN (agent) 100", "c9 C UP 100", "h2:c1 B UP 100", sorry)
	time.Sleep(2 * pollInterval)
	b.waitForServers("web", "c1 A DOWN (agent) 100", "c9 C UP 100", "h2:c1 B UP 100", sorry)
	e.known = true
	e.setThere("web", "c1", "B", "up")
	b.waitForServers("web", "c1 A DOWN (agent) 100", "h2:c1 B UP 100", sorry)
	e.setThere("web", "c1", "B", "gone") // its host is lost
	b.waitForServers("web", "c1 A DOWN (agent) 100", sorry)
	e.noErrors()
}

// What was shown before the board was complete is known then, also when nobody has told of it yet.
func TestCompleteBoardIsTakenWhole(t *testing.T) {
	t.Parallel()
	board := supervisor.NewBoard(nil)
	board.ExpectRemote()
	l := newInstance(&HAProxy{}, socket{})
	l.takeChanges(board, board.Complete())
	board.ShowRemote([]supervisor.Member{elsewhere("web", "c1", 80, "up")}, nil)
	board.RemoteKnown()
	l.takeChanges(board, board.Complete())
	if n := l.roster.size(); n != 1 {
		t.Errorf("the roster has %d members, want 1", n)
	}
	board.ShowRemote([]supervisor.Member{elsewhere("web", "c2", 80, "up")}, nil)
	l.takeChanges(board, board.Complete())
	if n := l.roster.size(); n != 1 {
		t.Errorf("the roster has %d members, want 1: nobody has told of the other", n)
	}
}

// A change of readiness of another host's container touches its server, and no more.
func TestRosterChangesOfOtherHosts(t *testing.T) {
	t.Parallel()
	board := boardOf(nil)
	board.ShowRemote([]supervisor.Member{elsewhere("web", "c1", 80, "up"), elsewhere("web", "c2", 80, "up")}, nil)
	r := newRoster()
	r.takeAll(board)
	for _, step := range []struct {
		what    string
		put     []supervisor.Member
		gone    []string
		touched []string
		remade  bool
	}{
		{"readiness", []supervisor.Member{elsewhere("web", "c1", 80, "down")}, nil, []string{"h2:c1"}, false},
		{"a drain", []supervisor.Member{elsewhere("web", "c1", 80, "stopping")}, nil, []string{"h2:c1"}, false},
		{"it is new", []supervisor.Member{elsewhere("web", "c3", 80, "up")}, nil, nil, true},
		{"it is gone", nil, []string{"h2/id-c1"}, nil, true},
	} {
		for _, l := range r.backends {
			l.clear()
		}
		board.ShowRemote(step.put, step.gone)
		ids := map[string]bool{}
		for _, m := range step.put {
			ids[m.ID] = true
		}
		for _, id := range step.gone {
			ids[id] = true
		}
		r.take(ids, board)
		l := r.roll("web")
		var touched []string
		for name := range l.touched {
			touched = append(touched, name)
		}
		if !slices.Equal(touched, step.touched) || l.remade != step.remade {
			t.Errorf("%s: touched %v, want %v; made anew %v, want %v", step.what, touched, step.touched, l.remade, step.remade)
		}
		compareRosters(t, step.what, r, board)
	}
}
