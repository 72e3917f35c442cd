package haproxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/supervisor"
)

func TestNewProcessGetsAFullSync(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.startPushing()
			want := []string{sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 0", "web-3 C UP 100"}
			for i, what := range []string{"up", "down", "up"} {
				e.set(fmt.Sprintf("web-%d", i+1), string(rune('A'+i)), what)
			}
			b.waitForServers("web", want...)
			b.kill()
			e.waitForEvent(EventLost, "HAProxy at "+b.socket()+" cannot be updated, its servers keep their last state")
			b.start()
			b.waitForServers("web", want...)
			e.waitForEvent(EventBack, "HAProxy at "+b.socket()+" can be updated again")
			e.noErrors()
		})
	}
}

// A backend that has no servers but healthd's is empty in a new process, as it was before all.
func TestNewProcessWithAnEmptyBackend(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, "backend web\n")
	e := b.startPushing()
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100")
	time.Sleep(3 * pollSoon) // nothing is left to do
	b.kill()
	b.start()
	b.waitForServers("web", "c1 A UP 100")
	e.noErrors()
}

// A process that replaces another so fast that no poll fails in between, as in a
// reload, gets a full sync, too.
func TestReloadGetsAFullSync(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	b.reload()
	b.waitForServers("web", "c1 A UP 100", sorry)
	patience.Until(t, "an event", func() error {
		back := e.recorded(EventBack)
		if !slices.ContainsFunc(back, func(string) bool { return true }) {
			return fmt.Errorf("events: %q", back)
		}
		return nil
	})
	e.noErrors()
}

// A daemon without state finds the servers that an earlier one added, and deletes those
// without a container, but not before it knows all containers.
func TestNewDaemonFindsServers(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.newSupervisor()
			end := e.startDaemon(b.socket())
			for i := range 3 {
				e.set(fmt.Sprintf("web-%d", i+1), string(rune('A'+i)), "up")
			}
			all := []string{sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100"}
			b.waitForServers("web", all...)
			end()
			e.forget("web-1", "web-2", "web-3")
			e.synced = false
			end = e.startDaemon(b.socket())
			e.set("web-2", "B", "up")
			time.Sleep(2 * pollInterval) // nothing is to happen
			b.waitForServers("web", all...)
			e.mu.Lock()
			e.synced = true
			e.mu.Unlock()
			e.set("web-2", "B", "down")
			if name == "dynamic" {
				b.waitForServers("web", sorry, "web-2 B DOWN (agent) 100")
			} else {
				b.waitForServers("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
			}
			end()
			e.forget("web-2")
			e.startDaemon(b.socket()) // which has no container of that backend at all
			if name == "dynamic" {
				b.waitForServers("web", sorry)
			} else {
				b.waitForServers("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
			}
			e.noErrors()
		})
	}
}

// A change that was interrupted, because healthd or the connection died, is completed,
// wherever that was.
func TestIncompleteServersAreCompleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config       string
		before, then string // what the container is, when the daemon dies and then
		letter       string // of its application then
		want         []string
	}{
		"add":    {dynamic, "gone", "up", "A", []string{"c1 A UP 100", sorry}},
		"delete": {dynamic, "down", "gone", "A", []string{"c1 A UP 100", sorry}},
		"fill":   {slots, "gone", "up", "A", []string{sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100"}},
		"move":   {dynamic, "up", "up", "B", []string{"c1 A UP 100", sorry}},
		"free":   {slots, "up", "gone", "A", []string{sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, tc.config)
			for cut := 1; ; cut++ {
				e := b.newSupervisor()
				end := e.startDaemon(b.socket())
				e.set("c1", "A", tc.before)
				b.waitForState("A", map[string]string{"up": "UP", "down": "DOWN (agent)"}[tc.before])
				end()
				e.set("c1", tc.letter, tc.then)
				commands := b.plannedCommands(e.Board())
				if cut > len(commands) {
					if cut < 3 {
						t.Fatalf("the plan is %v", commands)
					}
					return
				}
				if _, err := e.h.instances[0].query(t.Context(), commands[:cut]); err != nil {
					t.Fatal(err)
				}
				end = e.startDaemon(b.socket())
				e.set("c1", "A", "up")
				b.waitForServers("web", tc.want...)
				e.set("c1", "A", "gone")
				if tc.config == dynamic {
					b.waitForServers("web", sorry)
				} else {
					b.waitForServers("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
				}
				end()
				e.noErrors()
			}
		})
	}
}

// waitForState waits until HAProxy shows that state of the application's server, or no such server when it is empty.
func (b *balancer) waitForState(letter, state string) {
	b.t.Helper()
	patience.Until(b.t, "HAProxy shows the state", func() error {
		lines, err := b.show("web")
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, " "+letter+" ") })
		if err != nil || (at < 0) != (state == "") || at >= 0 && !strings.Contains(lines[at], " "+state+" ") {
			return fmt.Errorf("%q, %v, want %q", lines, err, state)
		}
		return nil
	})
}

// plannedCommands returns what a daemon would tell HAProxy about the board.
func (b *balancer) plannedCommands(board *supervisor.Board) (commands []string) {
	b.t.Helper()
	l := newInstance(&HAProxy{agent: agentAddress{"127.0.0.1", 9}}, socket{network: "unix", address: b.socket()})
	l.takeChanges(board, board.Complete())
	l.backends["web"] = newBackendState()
	looks, err := l.look(b.t.Context(), board, time.Now())
	if err != nil || len(looks) != 1 {
		b.t.Fatalf("%d looks, %v", len(looks), err)
	}
	l.plan(looks[0], board, true, time.Now())
	for _, c := range looks[0].commands {
		commands = append(commands, c.text)
	}
	return commands
}

// Each of several HAProxies is updated, even while another one does not answer.
func TestSeveralHAProxies(t *testing.T) {
	t.Parallel()
	b, other := startBalancer(t, dynamic), startBalancer(t, slots)
	e := b.newSupervisor()
	e.startDaemon(b.socket(), b.dir+"/nobody.sock", "unix@"+other.socket())
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	other.ports = b.ports
	other.waitForServers("web", sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.waitForEvent(EventLost, "nobody.sock cannot be updated")
	b.kill()
	e.set("c1", "A", "down")
	other.waitForServers("web", sorry, "web-1 A DOWN (agent) 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.noErrors()
}
