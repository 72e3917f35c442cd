package haproxy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"healthd/supervisor"
)

func TestNewProcessIsToldEverything(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.tell()
			want := []string{sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 0", "web-3 C UP 100"}
			for i, what := range []string{"up", "down", "up"} {
				e.is(fmt.Sprintf("web-%d", i+1), string(rune('A'+i)), what)
			}
			b.shows("web", want...)
			b.end()
			e.records(EventLost, "HAProxy at "+b.socket()+" cannot be told anything, what it was told last stays")
			b.start()
			b.shows("web", want...)
			e.records(EventBack, "HAProxy at "+b.socket()+" can be told again")
			e.unharmed()
		})
	}
}

// A process that takes the place of another so fast that nobody sees the gap, as in a
// reload, is told everything, too.
func TestReloadIsSeen(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	b.reload()
	b.shows("web", "c1 A UP 100", sorry)
	eventually(t, "an event", func() error {
		back := e.recorded(EventBack)
		if !slices.ContainsFunc(back, func(string) bool { return true }) {
			return fmt.Errorf("events: %q", back)
		}
		return nil
	})
	e.unharmed()
}

// A daemon that has forgotten everything finds again what an earlier one has added, and
// clears up what is there for nobody; not before it knows all containers, though.
func TestNewDaemonFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.estate()
			end := e.begin(b.socket())
			for i := range 3 {
				e.is(fmt.Sprintf("web-%d", i+1), string(rune('A'+i)), "up")
			}
			all := []string{sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100"}
			b.shows("web", all...)
			end()
			e.forget("web-1", "web-2", "web-3")
			e.synced = false
			end = e.begin(b.socket())
			e.is("web-2", "B", "up")
			time.Sleep(2 * lookEvery) // nothing is to happen
			b.shows("web", all...)
			e.mu.Lock()
			e.synced = true
			e.mu.Unlock()
			e.is("web-2", "B", "down")
			if name == "dynamic" {
				b.shows("web", sorry, "web-2 B DOWN (agent) 100")
			} else {
				b.shows("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 B DOWN (agent) 100", "web-3 0.0.0.0:0 MAINT 100")
			}
			end()
			e.forget("web-2")
			e.begin(b.socket()) // which has no container of that backend at all
			if name == "dynamic" {
				b.shows("web", sorry)
			} else {
				b.shows("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
			}
			e.unharmed()
		})
	}
}

// What was begun and not ended, as healthd or the connection died in between, is made
// good, wherever that was.
func TestHalfDone(t *testing.T) {
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
				e := b.estate()
				end := e.begin(b.socket())
				e.is("c1", "A", tc.before)
				time.Sleep(2 * soonAfter)
				end()
				e.is("c1", tc.letter, tc.then)
				commands := b.planned(e.Board())
				if cut > len(commands) {
					if cut < 3 {
						t.Fatalf("the plan is %v", commands)
					}
					return
				}
				if _, err := e.h.links[0].ask(t.Context(), commands[:cut]); err != nil {
					t.Fatal(err)
				}
				end = e.begin(b.socket())
				e.is("c1", "A", "up")
				b.shows("web", tc.want...)
				e.is("c1", "A", "gone")
				if tc.config == dynamic {
					b.shows("web", sorry)
				} else {
					b.shows("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
				}
				end()
				e.unharmed()
			}
		})
	}
}

// planned returns what a daemon would tell HAProxy about the board.
func (b *balancer) planned(board *supervisor.Board) (commands []string) {
	b.t.Helper()
	l := newLink(&HAProxy{agent: agent{"127.0.0.1", 9}}, socket{network: "unix", address: b.socket()})
	l.members = members(board.Views())
	l.books["web"] = newBook()
	shows, err := l.look(b.t.Context(), []string{"web"})
	if err != nil {
		b.t.Fatal(err)
	}
	p := l.plan("web", shows["web"])
	p.complete = true
	p.make(l.members["web"])
	for _, c := range p.commands {
		commands = append(commands, c.text)
	}
	return commands
}

// Of several HAProxies each is told, however the others are.
func TestSeveralHAProxies(t *testing.T) {
	t.Parallel()
	b, other := startBalancer(t, dynamic), startBalancer(t, slots)
	e := b.estate()
	e.begin(b.socket(), b.dir+"/nobody.sock", "unix@"+other.socket())
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	other.ports = b.ports
	other.shows("web", sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.records(EventLost, "nobody.sock cannot be told anything")
	b.end()
	e.is("c1", "A", "down")
	other.shows("web", sorry, "web-1 A DOWN (agent) 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.unharmed()
}
