package haproxy

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/e2e/patience"
)

// Of two sockets of one process healthd uses one, and the other while that does not answer.
func TestTwoSocketsOfOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBalancer(t, dynamic+"global\n  stats socket "+filepath.Join(dir, "b")+" level admin\n")
	stops := map[string]func(){}
	var paths []string
	for _, name := range []string{"one", "two"} {
		path := filepath.Join(dir, name)
		paths, stops[path] = append(paths, path), passOn(t, path, b.socket())
	}
	e := b.newSupervisor()
	e.startDaemon(paths...)
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	var used, spare string
	patience.Until(t, "one stands by", func() error {
		for _, m := range e.recorded(EventError) {
			for i, path := range paths {
				if strings.HasPrefix(m, "HAProxy at "+path+" is the one at "+paths[1-i]+": ") {
					used, spare = paths[1-i], path
					return nil
				}
			}
		}
		return fmt.Errorf("events %q", e.recorded(EventError))
	})
	e.set("c2", "B", "up")
	b.waitForServers("web", "c1 A UP 100", "c2 B UP 100", sorry)
	if n := testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(spare)); n > 0 {
		t.Errorf("%v commands came to the socket that is not used", n)
	}
	stops[used]()
	e.waitForEvent(EventLost, used)
	e.set("c2", "B", "down")
	b.waitForServers("web", "c1 A UP 100", "c2 B DOWN (agent) 100", sorry)
	e.set("c1", "A", "gone")
	b.waitForServers("web", "c2 B DOWN (agent) 100", sorry)
	if errs := e.recorded(EventError); len(errs) != 1 {
		t.Errorf("events %q", errs)
	}
}

// A drain waits for no socket that is not used.
func TestDrainWithTwoSocketsOfOneProcess(t *testing.T) {
	t.Parallel()
	second := filepath.Join(t.TempDir(), "b")
	b := startBalancer(t, dynamic+"global\n  stats socket "+second+" level admin\n")
	e := b.newSupervisor()
	e.startDaemon(b.socket(), second)
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	e.set("c1", "A", "stopping")
	patience.Until(t, "it is drained", func() error {
		if len(e.drainedRuns()) == 0 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// Processes whose pids, ages and names are the same, as those of containers may be, are told apart by their sockets.
func TestAdminSockets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0,
		"# socket lvl processes\nsockpair@4 admin all\nunix@/run/a.sock admin all\n":                                       1,
		"# socket lvl processes\nunix@/run/a.sock admin all\nipv4@127.0.0.1:9 admin all\n":                                 2,
		"# socket lvl processes\nunix@/run/a.sock admin all\nunix@/run/b.sock operator all\nunix@/run/c.sock user all\n\n": 1,
	} {
		if got := adminSockets(text); got != want {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

// passOn is a socket that leads to another one until it is stopped.
func passOn(t *testing.T, path, to string) (stop func()) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []net.Conn
	stop = sync.OnceFunc(func() {
		ln.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range all {
			c.Close()
		}
	})
	t.Cleanup(stop)
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			conn, err := net.Dial("unix", to)
			if err != nil {
				from.Close()
				continue
			}
			mu.Lock()
			all = append(all, from, conn)
			mu.Unlock()
			for _, pair := range [][2]net.Conn{{from, conn}, {conn, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
	return stop
}
