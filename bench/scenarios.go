package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"healthd/bench/engine"
)

// scenario is one situation that healthd is measured in.
type scenario struct {
	name, about string
	run         func(ctx context.Context, w workload, t *table) error
}

var scenarios = []scenario{
	{"steady", "all containers run; starts and stops; readiness of some changes", steady},
	{"fast", "a tenth of the containers, at a tenth of the period", fast},
	{"flat", "as many probes in a second from few containers as from many", flat},
	{"failing", "a share of all containers fails for good", failing},
	{"storm", "all containers fail at once", storm},
	{"crowd", "all containers fail at once, and are one group", crowd},
	{"sustained", "3,000 probes a second for two minutes, on new connections and on kept ones", sustained},
	{"balancer", "all containers are servers of a real HAProxy, which starts, waits, and starts again", balance},
	{"fleet", "10,000 members of 100 hosts come from a real etcd to a healthd beside a real HAProxy", fleet},
}

// threshold is how often in a row a probe fails before it counts.
const threshold = 3

// specs are three probes, of which two are active once a container has started. A host has more kinds of containers
// than one. more is added to each spec, with {kind} and {port} as its own.
func specs(period time.Duration, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
[defaults]
backoff = { initial = "10s", max = "5m" }
termination_grace_period = "1s"
[defaults.startup]
http_get = { port = "http", path = "/startup" }
period = %[1]q
failure_threshold = 30
[defaults.liveness]
tcp_socket = { port = "tcp" }
period = %[1]q
[defaults.readiness]
http_get = { port = "http", path = "/ready" }
period = %[1]q
failure_threshold = %[2]d
`, period, threshold)
	for kind := range engine.Kinds {
		port := engine.SharedPort + kind
		fmt.Fprintf(&b, "[[spec]]\nname = \"kind-%[1]d\"\nmatch = { bench = \"%[1]d\" }\nports = { http = %[2]d, tcp = %[3]d }\n%[4]s",
			kind, port, port+engine.TCPOffset, strings.NewReplacer("{kind}", strconv.Itoa(kind), "{port}", strconv.Itoa(port)).Replace(more))
	}
	return b.String()
}

// own is how many containers have ports of their own, which tell more about them.
func (w workload) own() int { return min(w.containers/5, engine.MaxOwn) }

// withRig runs a scenario on a new rig whose healthd knows all containers.
func withRig(ctx context.Context, w workload, specs string, do func(*rig) error, engineArgs ...string) error {
	r, err := newRig(ctx, w.own(), append([]string{"-containers", fmt.Sprint(w.containers)}, engineArgs...)...)
	if err != nil {
		return err
	}
	err = r.runDaemon(w.binary, specs)
	if err == nil {
		err = r.awaitSync()
	}
	if err == nil {
		err = do(r)
	}
	return errors.Join(err, r.close())
}

// window is what a stretch of time cost.
type window struct {
	took        time.Duration
	cpu, kernel float64 // share of one core, in per cent; share of the kernel in it
	perProbe    time.Duration
	memory      memory
	goroutines  int
	descriptors int
	answers     latencies // of the loop
	asked       int
	opened      int // connections
	missed      int
	p50         time.Duration
	p99         time.Duration
	max         time.Duration
}

// measureWindow measures for so many seconds the containers below to. during, if not nil, is done meanwhile, and
// ends the window.
func (r *rig) measureWindow(w workload, name string, to int, during func() error) (window, error) {
	if err := errors.Join(r.forget(), r.resetPeak()); err != nil {
		return window{}, err
	}
	before, err := r.usage()
	if err != nil {
		return window{}, err
	}
	pings := r.pingLoop()
	if during == nil {
		during = func() error { return r.sleep(time.Duration(w.seconds) * time.Second) }
	}
	err = during()
	out := window{answers: pings()}
	after, usageErr := r.usage()
	mem, memErr := r.memory()
	rep, repErr := r.report(w.period, to)
	if err := errors.Join(err, usageErr, memErr, repErr); err != nil {
		return out, err
	}
	used, took := after.total()-before.total(), after.at.Sub(before.at)
	out.cpu = 100 * used.Seconds() / took.Seconds()
	out.kernel = 100 * (after.kernel - before.kernel).Seconds() / max(used.Seconds(), 0.001)
	out.perProbe = used / time.Duration(max(rep.Asked, 1))
	out.took, out.opened = took, rep.Opened
	out.memory, out.asked, out.missed, out.p50, out.p99, out.max = mem, rep.Asked, rep.Missed, rep.P50, rep.P99, rep.Max
	out.goroutines, out.descriptors, err = r.inside()
	if err == nil && w.profiles != "" {
		err = r.profile(w.profiles, name, 20)
	}
	return out, err
}

// steady is the usual life of a large host.
func steady(ctx context.Context, w workload, t *table) error {
	const name = "steady"
	return withRig(ctx, w, specs(w.period, ""), func(r *rig) error {
		synced := time.Since(r.started)
		calls, err := r.calls()
		if err != nil {
			return err
		}
		t.within(name, fmt.Sprintf("start to all %d armed", w.containers), synced, 5*time.Second)
		t.exactly(name, "list calls", calls["list"], 1)
		t.note(name, "inspections", "%d", calls["inspect"])
		if err := r.awaitStarted(w); err != nil {
			return err
		}
		o, err := r.measureWindow(w, name, w.own(), nil)
		if err != nil {
			return err
		}
		t.atMost(name, fmt.Sprintf("CPU with %d probes in %d s", o.asked, w.seconds), o.cpu, 30, "% of a core")
		t.note(name, "kernel's share of it", "%.0f %%", o.kernel)
		t.note(name, "CPU per probe", "%s", short(o.perProbe))
		t.atMost(name, "memory, peak", o.memory.peak, 150, "MB")
		t.note(name, "goroutines, descriptors", "%d, %d", o.goroutines, o.descriptors)
		t.exactly(name, "missed probes", o.missed, 0)
		lateness(t, name, o)
		return errors.Join(churn(r, w, t), verdicts(r, w, t))
	})
}

func lateness(t *table, name string, o window) {
	t.within(name, "lateness p99", o.p99, 20*time.Millisecond)
	t.note(name, "lateness p50, max", "%s, %s", short(o.p50), short(o.max))
	t.within(name, "loop's answer p99", o.answers.at(0.99), 20*time.Millisecond)
	t.note(name, "loop's answer p50, max", "%s, %s", short(o.answers.at(0.5)), short(o.answers.at(1)))
}

// awaitStarted waits until all containers have passed their startup probe, and one period more.
func (r *rig) awaitStarted(w workload) error {
	err := r.eventually(2*w.period+startPatience, "all containers were asked", func() error {
		var n int
		if err := r.get(r.targets, fmt.Sprintf("/begun?to=%d", w.own()), &n); err != nil {
			return err
		}
		if n < w.own() {
			return fmt.Errorf("%d of %d were", n, w.own())
		}
		return nil
	})
	return errors.Join(err, r.sleep(2*w.period))
}

// churn stops and starts containers while the others are probed as before.
func churn(r *rig, w workload, t *table) error {
	const name = "churn"
	// Half of those that are known by their ports change, the other half shows what that does to others.
	first, last := w.own()/2, w.own()
	var armed latencies
	o, err := r.measureWindow(w, name, first, func() error {
		var err error
		armed, err = r.churn(w, first, last)
		return err
	})
	if err != nil {
		return err
	}
	t.note(name, "starts, and as many stops, per second", "%d, of %d containers", w.churn, last-first)
	t.within(name, "event to first probe p99", armed.at(0.99), 20*time.Millisecond)
	t.note(name, "event to first probe p50, max", "%s, %s", short(armed.at(0.5)), short(armed.at(1)))
	t.exactly(name, "starts whose container was not probed", len(armed.missing), 0)
	t.atMost(name, "CPU", o.cpu, 100, "% of a core")
	t.exactly(name, "missed probes of the others", o.missed, 0)
	lateness(t, name, o)
	var metrics string
	if err := r.get(r.control, "/metrics", &metrics); err != nil {
		return err
	}
	lost := 0
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "healthd_runtime_relists_total") && strings.Contains(line, `reason="lossy"`) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			lost++
		}
	}
	t.exactly(name, "lists for lost events", lost, 0)
	return nil
}

// fast is fewer containers at a shorter period.
func fast(ctx context.Context, w workload, t *table) error {
	const name = "fast"
	w.containers, w.period = max(w.containers/10, 1), w.period/10
	return withRig(ctx, w, specs(w.period, ""), func(r *rig) error {
		if err := r.awaitStarted(w); err != nil {
			return err
		}
		o, err := r.measureWindow(w, name, w.own(), nil)
		if err != nil {
			return err
		}
		t.atMost(name, fmt.Sprintf("CPU with %d containers, %d probes in %d s", w.containers, o.asked, w.seconds), o.cpu, 15, "% of a core")
		t.note(name, "kernel's share of it", "%.0f %%", o.kernel)
		t.note(name, "memory, peak", "%.0f MB", o.memory.peak)
		t.exactly(name, "missed probes", o.missed, 0)
		lateness(t, name, o)
		return nil
	})
}

// flat compares the cost of a probe between sizes.
func flat(ctx context.Context, w workload, t *table) error {
	const name = "flat"
	var first time.Duration
	for _, part := range []int{100, 10, 1} {
		w := w
		w.containers, w.period = w.containers/part, w.period/time.Duration(part)
		err := withRig(ctx, w, specs(w.period, ""), func(r *rig) error {
			if err := r.awaitStarted(w); err != nil {
				return err
			}
			o, err := r.measureWindow(w, name, w.own(), nil)
			if first == 0 {
				first = o.perProbe
			}
			t.note(name, fmt.Sprintf("CPU per probe, %d containers", w.containers), "%s", short(o.perProbe))
			if part == 1 {
				t.atMost(name, "the most containers to the fewest", float64(o.perProbe)/float64(first), 1.3, "times")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// failing is a host on which part of the containers never gets well.
func failing(ctx context.Context, w workload, t *table) error {
	const name = "failing"
	sick := min(int(w.failing*float64(w.containers)), w.own())
	return withRig(ctx, w, restarting(w.period, ""), func(r *rig) error {
		if err := errors.Join(r.awaitStarted(w), r.fail(0, sick)); err != nil {
			return err
		}
		if err := r.sleep((threshold + 1) * w.period); err != nil {
			return err
		}
		o, err := r.measureWindow(w, name, w.own(), nil)
		if err != nil {
			return err
		}
		t.note(name, fmt.Sprintf("CPU while %d of %d fail", sick, w.containers), "%.1f %% of a core", o.cpu)
		t.atMost(name, "memory, peak", o.memory.peak, 150, "MB")
		lateness(t, name, o)
		return nil
	})
}

// restarting are specs whose liveness probe can fail.
func restarting(period time.Duration, more string) string {
	return strings.Replace(specs(period, more), "tcp_socket = { port = \"tcp\" }", `http_get = { port = "http", path = "/live" }`, 1)
}

// storm has all containers fail, each by itself: the budget of the host holds.
func storm(ctx context.Context, w workload, t *table) error {
	return allFail(ctx, w, t, "storm", "[spec.group]\nmax_unavailable = 1\n", func(took time.Duration) int {
		return guardLimit * int((took+guardWindow-1)/guardWindow)
	})
}

// crowd has all containers of one group fail: its limit holds, too. Those that were restarted count as down for
// the startup budget of 30 periods, as they do not get well.
func crowd(ctx context.Context, w workload, t *table) error {
	const unavailable = 2
	return allFail(ctx, w, t, "crowd", fmt.Sprintf("[spec.group]\nname = \"crowd\"\nmax_unavailable = %d\n", unavailable), func(took time.Duration) int {
		return unavailable * (1 + int(took/(30*w.period)))
	})
}

// guardLimit is how many restarts [guard] allows in its window by itself.
const (
	guardLimit  = 10
	guardWindow = time.Minute
)

// allFail lets all containers fail. allowed is how many may be restarted in so long a time.
func allFail(ctx context.Context, w workload, t *table, name, group string, allowed func(time.Duration) int) error {
	return withRig(ctx, w, restarting(w.period, group), func(r *rig) error {
		if err := r.awaitStarted(w); err != nil {
			return err
		}
		before, err := r.calls()
		if err != nil {
			return err
		}
		began := time.Now()
		o, err := r.measureWindow(w, name, w.own(), func() error {
			return errors.Join(r.fail(0, w.own()+1), r.sleep(time.Duration(threshold)*w.period+time.Duration(w.seconds)*time.Second))
		})
		if err != nil {
			return err
		}
		after, err := r.calls()
		if err != nil {
			return err
		}
		stops, most := after["stop"]-before["stop"], allowed(time.Since(began))
		t.add(name, fmt.Sprintf("restarts while all %d fail", w.containers), fmt.Sprint(stops), fmt.Sprintf("1 to %d", most), 1 <= stops && stops <= most)
		t.note(name, "CPU", "%.1f %% of a core", o.cpu)
		t.atMost(name, "memory, peak", o.memory.peak, 150, "MB")
		t.exactly(name, "missed probes", o.missed, 0)
		lateness(t, name, o)
		return nil
	})
}
