package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"healthd/bench/engine"
	"healthd/bench/targets"
)

// sampling is how often the sockets are counted.
const sampling = 5 * time.Second

// few is how many sockets in TIME-WAIT are none to speak of. One for each probe would be 3,000 more in each second.
const few = 10

// sustained probes for twice as long as a port stays in TIME-WAIT: a port that each probe left behind would show, and the
// host would run out of them.
func sustained(ctx context.Context, w workload, t *table) error {
	w.byDefault(1500, time.Second, 120)
	grpc, keep := fmt.Sprintf(`grpc = { port = %d }`, engine.GRPCPort), `, connection = "keep-alive" }`
	tcp, ready := `tcp_socket = { port = "tcp" }`, `path = "/ready" }`
	var fresh window
	for _, mode := range []struct {
		name  string
		kept  bool
		specs *strings.Replacer
	}{
		{"sustained, HTTP and TCP", false, strings.NewReplacer()},
		{"sustained, HTTP and gRPC", false, strings.NewReplacer(tcp, grpc)},
		{"sustained, HTTP and gRPC, kept", true, strings.NewReplacer(tcp, strings.TrimSuffix(grpc, " }")+keep, ready, strings.TrimSuffix(ready, " }")+keep)},
	} {
		err := withRig(ctx, w, mode.specs.Replace(specs(w.period, "")), func(r *rig) error {
			if err := r.awaitStarted(w); err != nil {
				return err
			}
			o, err := sustain(r, w, t, mode.name, mode.kept)
			if err != nil {
				return err
			}
			if mode.kept {
				t.atMost(mode.name, "CPU per probe, kept to new", float64(o.perProbe)/float64(fresh.perProbe), 0.8, "times")
			}
			fresh = o
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sustain measures a window, and what it does to the host's ports.
func sustain(r *rig, w workload, t *table, name string, kept bool) (window, error) {
	before, err := r.results()
	if err != nil {
		return window{}, err
	}
	var seen []sockets
	o, err := r.measureWindow(w, name, w.own(), func() error {
		var err error
		seen, err = r.watchSockets(w)
		return err
	})
	if err != nil {
		return o, err
	}
	after, afterErr := r.results()
	theirs, theirErr := r.sockets(w, "sport")
	if err := errors.Join(afterErr, theirErr); err != nil {
		return o, err
	}
	perSecond := func(n int) int { return int(float64(n)/o.took.Seconds() + 0.5) }
	probes := int(2 * float64(w.containers) / w.period.Seconds())
	t.noLess(name, "probes a second", perSecond(o.asked), probes*99/100)
	if kept {
		t.noMore(name, "new connections a second", perSecond(o.opened), probes/100) // each is renewed after five minutes
	} else {
		t.note(name, "new connections a second", "%d", perSecond(o.opened))
	}
	usedPorts(t, name, seen, w.containers, kept)
	t.note(name, "the targets' sockets in TIME-WAIT", "%d", theirs.waiting)
	for _, result := range []string{"unknown", "failed"} {
		t.exactly(name, "probes with the result "+result, after[result]-before[result], 0)
	}
	t.exactly(name, "missed probes", o.missed, 0)
	t.note(name, "CPU, kernel's share", "%.1f %% of a core, %.0f %%", o.cpu, o.kernel)
	t.note(name, "CPU per probe", "%s", short(o.perProbe))
	t.note(name, "memory, peak; goroutines, descriptors", "%.0f MB; %d, %d", o.memory.peak, o.goroutines, o.descriptors)
	lateness(t, name, o)
	return o, nil
}

// usedPorts tells what healthd's side took of the host's ports.
func usedPorts(t *table, name string, seen []sockets, containers int, kept bool) {
	first, last := seen[0], seen[len(seen)-1]
	most := first
	for _, s := range seen {
		most.waiting, most.ports, most.open = max(most.waiting, s.waiting), max(most.ports, s.ports), max(most.open, s.open)
	}
	probes := 2 * containers
	target := probes / 10 // those under way
	if kept {
		target = probes + probes/10
	}
	t.noMore(name, fmt.Sprintf("healthd's sockets in TIME-WAIT, most of %d samples", len(seen)), most.waiting, few)
	t.noMore(name, "more of them at the end than at first", last.waiting-first.waiting, few)
	t.noMore(name, fmt.Sprintf("healthd's ports in use, most, of %d", ephemeralPorts()), most.ports, target)
	t.note(name, "healthd's connections, most", "%d", most.open)
}

// sockets is what one side's sockets of the probes' connections are.
type sockets struct {
	waiting int // in TIME-WAIT
	open    int // established
	ports   int // local ones of all, in any state
}

// watchSockets counts healthd's sockets again and again until the window is over.
func (r *rig) watchSockets(w workload) ([]sockets, error) {
	var all []sockets
	for end := time.Now().Add(time.Duration(w.seconds) * time.Second); ; {
		s, err := r.sockets(w, "dport")
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		rest := time.Until(end)
		if rest <= 0 {
			return all, nil
		}
		if err := r.sleep(min(sampling, rest)); err != nil {
			return nil, err
		}
	}
}

// sockets counts the sockets whose remote port (dport) or own port (sport) is a target's: healthd's or the targets'.
func (r *rig) sockets(w workload, side string) (sockets, error) {
	filter := fmt.Sprintf("( %[1]s >= :%[2]d and %[1]s < :%[3]d )", side, engine.SharedPort, engine.OwnPort+engine.TCPOffset+engine.MaxOwn)
	out, err := exec.CommandContext(r.ctx, "ss", "-Htan", filter).Output()
	if err != nil {
		err = fmt.Errorf("ss -Htan: %w", err)
		if errors.Is(err, exec.ErrNotFound) {
			err = errors.New("there is no ss: install the package iproute2")
		}
		return sockets{}, err
	}
	return countSockets(string(out), side, w.own()), nil
}

// countSockets counts what ss printed: STATE RECV-Q SEND-Q LOCAL PEER.
func countSockets(text, side string, own int) sockets {
	var s sockets
	ports := map[uint16]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] == "LISTEN" {
			continue
		}
		local, err1 := netip.ParseAddrPort(f[3])
		peer, err2 := netip.ParseAddrPort(f[4])
		target := peer
		if side == "sport" {
			target = local
		}
		if err1 != nil || err2 != nil || !target.Addr().Unmap().IsLoopback() || !targets.Listens(int(target.Port()), own) {
			continue
		}
		ports[local.Port()] = true
		switch f[0] {
		case "TIME-WAIT":
			s.waiting++
		case "ESTAB":
			s.open++
		}
	}
	s.ports = len(ports)
	return s
}

// results is how many probes there were so far, by their result.
func (r *rig) results() (map[string]int, error) {
	var metrics string
	if err := r.get(r.control, "/metrics", &metrics); err != nil {
		return nil, err
	}
	n := map[string]int{}
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "prober_probe_total{") {
			continue
		}
		labels, value, _ := strings.Cut(line, "} ")
		_, result, _ := strings.Cut(labels, `result="`)
		result, _, _ = strings.Cut(result, `"`)
		count, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		n[result] += int(count)
	}
	if n["successful"] == 0 {
		return nil, errors.New("metrics: no probe was successful")
	}
	return n, nil
}

// ephemeralPorts is how many ports the host has for connections; 0: that is not known.
func ephemeralPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	var first, last int
	if _, scanErr := fmt.Sscan(string(text), &first, &last); err != nil || scanErr != nil {
		return 0
	}
	return last - first + 1
}
