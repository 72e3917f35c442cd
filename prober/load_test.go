package prober

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const loadAtOnce = 600 // probes

// TestEphemeralPortsAreNotExhausted probes one server more often than this host has local
// ports, 600 probes at a time, without the one-minute pauses of the kubelet's test.
func TestEphemeralPortsAreNotExhausted(t *testing.T) {
	rounds := often(max(59, ephemeralPorts(t)/loadAtOnce+1), 3) // none may stay in TIME_WAIT, however few
	t.Run("tcp", func(t *testing.T) {
		covers(t, "163")
		// Most of the time is spent in waits of a second: the probes fill the listener's
		// backlog faster than the server accepts.
		port := rawServer(t, false, func(net.Conn, <-chan struct{}) {})
		runProbes(t, rounds, Handler{TCPSocket: &TCPSocket{Port: port}}, port)
	})
	t.Run("http", func(t *testing.T) {
		covers(t, "164")
		// A server with net/http would take most of the CPU time.
		port := rawServer(t, true, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		runProbes(t, rounds, Handler{HTTPGet: &HTTPGet{Port: port}}, port)
	})
}

func runProbes(t *testing.T, rounds int, h Handler, port int) {
	t.Helper()
	prober, left := New(Config{}), countTimeWaits(t, port)
	var failed atomic.Int32
	var wg sync.WaitGroup
	for range loadAtOnce {
		p, err := prober.Probe(h, loopback)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range rounds {
				if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success && failed.Add(1) < 5 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	wg.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d probes failed", n, loadAtOnce*rounds)
	}
	// For connections to itself, Linux reuses a port after a second in TIME_WAIT.
	if n := left(); n > 0 {
		t.Errorf("%d ports are in TIME_WAIT", n)
	}
}

// ephemeralPorts returns how many local ports this host has for connections.
func ephemeralPorts(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var limits [2]int
	for i, f := range strings.Fields(string(b)) {
		if limits[i], err = strconv.Atoi(f); err != nil {
			t.Fatal(err)
		}
	}
	return limits[1] - limits[0] + 1
}
