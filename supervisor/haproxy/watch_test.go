package haproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/e2e/patience"
)

// recorder stands between healthd and HAProxy, and notes what healthd says.
type recorder struct {
	path string

	mu    sync.Mutex
	lines []string
}

func (b *balancer) startRecorder(t *testing.T) *recorder {
	r := &recorder{path: filepath.Join(b.dir, "recorded.sock")}
	serve(t, r.path, func(conn net.Conn) {
		there, err := net.Dial("unix", b.socket())
		if err != nil {
			return
		}
		defer there.Close()
		go func() {
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				r.mu.Lock()
				r.lines = append(r.lines, lines.Text())
				r.mu.Unlock()
				if _, err := io.WriteString(there, lines.Text()+"\n"); err != nil {
					return
				}
			}
			there.Close()
		}()
		_, _ = io.Copy(conn, there)
	})
	return r
}

// count returns how many commands began with that.
func (r *recorder) count(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// Readiness and drains cost a look at the servers that they are about. All servers are looked at as often as when nothing
// happens.
func TestReadinessIsWatchedAlone(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			r := b.startRecorder(t)
			e := b.newSupervisor()
			e.startDaemon(r.path)
			e.set("web-1", "A", "up")
			e.set("web-2", "B", "up")
			b.waitForServers("web", states(name, "web-1 A UP 100", "web-2 B UP 100")...)
			patience.Until(t, "fresh servers are looked at as seldom as others", func() error {
				before := r.count("show servers state")
				time.Sleep(2 * pollInterval)
				if n := r.count("show servers state") - before; n > 3 {
					return fmt.Errorf("%d looks", n)
				}
				return nil
			})
			whole, began := r.count("show servers state"), time.Now()
			const changes = 10
			for range changes {
				e.set("web-1", "A", "down")
				b.waitForServers("web", states(name, "web-1 A DOWN (agent) 100", "web-2 B UP 100")...)
				e.set("web-1", "A", "up")
				b.waitForServers("web", states(name, "web-1 A UP 100", "web-2 B UP 100")...)
			}
			e.set("web-1", "A", "stopping")
			b.waitForServers("web", states(name, "web-1 A UP 0", "web-2 B UP 100")...)
			patience.Until(t, "it is drained", func() error {
				if len(e.drainedRuns()) == 0 {
					return fmt.Errorf("it is not")
				}
				return nil
			})
			idle := 2 + int(time.Since(began)/pollInterval)
			if n := r.count("show servers state") - whole; n > idle {
				t.Errorf("%d looks at all servers for %d changes in %v, want %d at most", n, 2*changes, time.Since(began), idle)
			}
			e.noErrors()
		})
	}
}

// states is what HAProxy shows of a backend with these servers of containers.
func states(config string, servers ...string) []string {
	if config == "dynamic" {
		return append([]string{sorry}, servers...)
	}
	return append(append([]string{sorry}, servers...), "web-3 0.0.0.0:0 MAINT 100")
}

// What somebody changes by hand is set right although nothing has changed for healthd.
func TestChangesByHandAreFound(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	e.set("c2", "B", "down")
	b.waitForServers("web", "c1 A UP 100", "c2 B DOWN (agent) 0", sorry)
	b.expectNoCommands(e)
	count := func() float64 { return testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())) }
	for _, command := range []string{"set server web/c1 agent down", "set server web/c1 weight 0", "set server web/c2 agent up"} {
		before := count()
		b.runCommand(command)
		patience.Until(t, "it is found", func() error {
			if count() == before {
				return fmt.Errorf("%s: HAProxy got no command", command)
			}
			return nil
		})
		b.waitForServers("web", "c1 A UP 100", "c2 B DOWN (agent) 0", sorry)
	}
	e.noErrors()
}

// A server is looked at by itself only while readiness is all that it needs.
func TestFollowsReadiness(t *testing.T) {
	t.Parallel()
	backends, err := readServers(mixedServers)
	if err == nil {
		_, err = readStat(mixedStat, backends["web"])
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		server string
		change func(*plan, *server, *member)
		want   bool
	}{
		"of the configuration":       {"c2", func(*plan, *server, *member) {}, true},
		"its agent check is off":     {"c2", func(_ *plan, s *server, _ *member) { s.agentState &^= checkEnabled }, false},
		"its agent check is another": {"c2", func(_ *plan, s *server, _ *member) { s.agentAddress.port++ }, false},
		"it is set aside":            {"c2", func(_ *plan, s *server, _ *member) { s.adminState |= adminDrain }, false},
		"added":                      {"gone", func(*plan, *server, *member) {}, true},
		"added, and has moved":       {"gone", func(_ *plan, _ *server, m *member) { m.port++ }, false},
		"added, by a process before": {"gone", func(p *plan, _ *server, _ *member) { clear(p.agentSend) }, false},
		"added, its container ended": {"gone", func(_ *plan, _ *server, m *member) { m.address = member{}.address }, true},
		"there are two of that name": {"gone", func(_ *plan, _ *server, m *member) { m.duplicateName = true }, false},
		"a slot":                     {"s1", func(*plan, *server, *member) {}, true},
		"a slot, and has moved":      {"s1", func(_ *plan, _ *server, m *member) { m.port++ }, false},
		"a slot, and is free":        {"s1", func(_ *plan, s *server, m *member) { s.address, m.address = member{}.address, member{}.address }, false},
	} {
		var s server
		for _, shown := range backends["web"] {
			if shown.name == tc.server {
				s = *shown
			}
		}
		s.adminState &^= adminDrain
		m := member{name: "c", agentName: "web/c", address: s.address, port: s.port}
		p := planFor("web", []*server{&s}, []member{m}, 0)
		p.agentSend[s.name] = "web/c"
		if tc.server == "s1" {
			s.adminState |= adminConfigured
			s.agentState |= checkConfigured
		}
		tc.change(p, &s, &m)
		if got := p.followsReadiness(&s, &m); got != tc.want {
			t.Errorf("%s: %v, want %v: %+v, %+v", name, got, tc.want, s, m)
		}
	}
}
