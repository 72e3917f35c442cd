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

// TestPortsLast asks one server more often than this host has ports to ask from,
// 600 probes at a time, and without the pauses of the kubelet's minute.
func TestPortsLast(t *testing.T) {
	rounds := max(59, ephemeralPorts(t)/loadAtOnce+1)
	t.Run("tcp", func(t *testing.T) {
		covers(t, "163")
		// Most of the time goes by in waits of a second: the probes fill the queue of
		// a listener faster than it can be emptied.
		port := rawServer(t, false, func(net.Conn, <-chan struct{}) {})
		underLoad(t, rounds, Handler{TCPSocket: &TCPSocket{Port: port}}, port)
	})
	t.Run("http", func(t *testing.T) {
		covers(t, "164")
		// A server of net/http would be most of the work.
		port := rawServer(t, true, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		underLoad(t, rounds, Handler{HTTPGet: &HTTPGet{Port: port}}, port)
	})
}

func underLoad(t *testing.T, rounds int, h Handler, port int) {
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
				if r := p.Ask(t.Context(), 3*patient); r.Outcome != Success && failed.Add(1) < 5 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	wg.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d probes failed", n, loadAtOnce*rounds)
	}
	// To this host itself, Linux takes a port again after a second of TIME_WAIT.
	if n := left(); n > 0 {
		t.Errorf("%d ports are in TIME_WAIT", n)
	}
}

// ephemeralPorts returns how many ports this host chooses from.
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
