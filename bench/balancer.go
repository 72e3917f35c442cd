package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"healthd/bench/engine"
)

// layout is how the containers are spread over backends.
type layout struct {
	name     string
	backends int
	of       string // the backend of a container, {kind} being its kind
}

// balance has healthd push all containers to a real HAProxy: to one that starts, while nothing changes, while readiness
// of some changes, and to a new one.
func balance(ctx context.Context, w workload, t *table) error {
	for _, l := range []layout{
		{fmt.Sprintf("%d backends", engine.Kinds), engine.Kinds, "kind-{kind}"},
		{"one backend", 1, "kind-0"},
	} {
		if w.backends != 0 && w.backends != l.backends {
			continue
		}
		if err := balanceOver(ctx, w, t, l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func balanceOver(ctx context.Context, w workload, t *table, l layout) error {
	r, err := newRig(ctx, w.own(), "-containers", fmt.Sprint(w.containers))
	if err != nil {
		return err
	}
	b, err := r.newBalancer(l.backends)
	if err == nil {
		err = measureBalancer(w, t, l, b)
	}
	return errors.Join(err, b.close(), r.close())
}

func measureBalancer(w workload, t *table, l layout, b *balancer) error {
	name := "balancer, " + l.name
	publish := "[spec.publish]\nport = {port}\n[spec.publish.haproxy]\nbackend = \"" + l.of + "\"\n"
	sockets := fmt.Sprintf("[haproxy]\nsockets = [%q]\n", b.socket)
	err := b.r.runDaemon(w.binary, sockets+specs(w.period, publish))
	if err == nil {
		err = b.r.awaitSync()
	}
	if err == nil {
		err = b.r.awaitStarted(w)
	}
	if err != nil {
		return err
	}
	without, err := b.r.measureWindow(w, "balancer-none", w.own(), nil)
	if err != nil {
		return err
	}
	if err := b.fill(w, t, name, "first push"); err != nil {
		return err
	}
	if err := b.idle(w, t, name, without); err != nil {
		return err
	}
	if err := b.follow(w, t, name); err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return err
	}
	if err := b.fill(w, t, name, "push to a new HAProxy"); err != nil {
		return err
	}
	return b.quiet(t, name)
}

// quiet counts the commands while nothing changes. It comes last: to read all metrics takes much memory.
func (b *balancer) quiet(t *table, name string) error {
	const pause = 10 * time.Second
	if err := b.r.sleep(pause); err != nil { // what a new server may still need is over
		return err
	}
	before, err := b.commands()
	if err == nil {
		err = b.r.sleep(pause)
	}
	if err != nil {
		return err
	}
	after, err := b.commands()
	t.exactly(name, fmt.Sprintf("commands in %v in which nothing changes", pause), int(after-before), 0)
	return err
}

// fill starts HAProxy and waits until it has all servers.
func (b *balancer) fill(w workload, t *table, name, what string) error {
	if err := b.r.resetPeak(); err != nil {
		return err
	}
	before, err := b.r.usage()
	if err != nil {
		return err
	}
	pings := b.r.pingLoop()
	began := time.Now()
	err = b.start()
	if err == nil {
		err = b.r.eventually(startPatience, "HAProxy has all servers", func() error {
			err := b.expectUp(w.containers)
			if err != nil {
				err = errors.Join(err, b.r.sleep(20*time.Millisecond)) // to ask costs HAProxy time that it needs for the push
			}
			return err
		})
	}
	took := time.Since(began)
	answers := pings()
	if err != nil {
		return err
	}
	after, err := b.r.usage()
	spent, balancerErr := b.p.usage()
	mem, memErr := b.r.memory()
	if err := errors.Join(err, balancerErr, memErr); err != nil {
		return err
	}
	t.within(name, fmt.Sprintf("%s: start of HAProxy to all %d up", what, w.containers), took, 5*time.Second)
	t.note(name, what+": CPU of healthd, of HAProxy", "%s, %s", short(after.total()-before.total()), short(spent.total()))
	t.within(name, what+": loop's answer p99", answers.at(0.99), 20*time.Millisecond)
	t.note(name, what+": loop's answer p50, max", "%s, %s", short(answers.at(0.5)), short(answers.at(1)))
	t.note(name, what+": memory of healthd, peak", "%.0f MB", mem.peak)
	return nil
}

// idle measures while nothing changes. without is the same without an HAProxy.
func (b *balancer) idle(w workload, t *table, name string, without window) error {
	if err := b.r.sleep(5 * time.Second); err != nil { // what a new server may still need is over
		return err
	}
	var o window
	began := time.Now()
	spent, err := b.spent(func() error {
		var err error
		o, err = b.r.measureWindow(w, strings.NewReplacer(", ", "-", " ", "-").Replace(name), w.own(), nil)
		return err
	})
	took := time.Since(began)
	if err != nil {
		return err
	}
	t.atMost(name, fmt.Sprintf("CPU for HAProxy while nothing changes, above the %.0f %% without", without.cpu), o.cpu-without.cpu, 10, "% of a core")
	t.note(name, "CPU of HAProxy meanwhile, its checks included", "%.1f %% of a core", 100*spent.Seconds()/took.Seconds())
	t.note(name, "memory of healthd, peak; without HAProxy", "%.0f MB, %.0f MB", o.memory.peak, without.memory.peak)
	lateness(t, name, o)
	return b.lookCost(t, name)
}

// lookCost measures what it costs HAProxy to show all its servers.
func (b *balancer) lookCost(t *table, name string) error {
	const (
		looks = 20
		pause = 5 * time.Second
	)
	usual, err := b.spent(func() error { return b.r.sleep(pause) })
	if err != nil {
		return err
	}
	for _, command := range []string{"show servers state", "show stat -1 4 -1"} {
		size, began := 0, time.Now()
		spent, err := b.spent(func() error {
			for range looks {
				answer, err := b.ask(command)
				if err != nil {
					return err
				}
				size = len(answer)
			}
			return nil
		})
		if err != nil {
			return err
		}
		spent -= time.Duration(float64(usual) * time.Since(began).Seconds() / pause.Seconds())
		t.note(name, fmt.Sprintf("CPU of HAProxy for %q", command), "%s, %.1f MB", short(spent/looks), float64(size)/1e6)
	}
	return nil
}

// spent is the CPU that HAProxy uses meanwhile.
func (b *balancer) spent(meanwhile func() error) (time.Duration, error) {
	before, err := b.p.usage()
	if err == nil {
		err = meanwhile()
	}
	if err != nil {
		return 0, err
	}
	after, err := b.p.usage()
	return after.total() - before.total(), err
}

// follow has readiness of some containers fail and come back, and measures until HAProxy has that.
func (b *balancer) follow(w workload, t *table, name string) error {
	some := min(w.own()/2, 300)
	for _, turn := range []struct {
		what, state string
		to          int // containers below it fail
	}{
		{"last failed probe until HAProxy has the server down", "DOWN", some},
		{"first good probe until HAProxy has the server up", "UP", 0},
	} {
		began := time.Now()
		if err := errors.Join(b.r.forget(), b.r.fail(0, turn.to)); err != nil {
			return err
		}
		if err := b.r.sleep((threshold + 1) * w.period); err != nil {
			return err
		}
		var l latencies
		for n := range some {
			var asked []int64
			if err := b.r.get(b.r.targets, fmt.Sprintf("/asked?number=%d&probe=/ready&since=%d", n, began.UnixNano()), &asked); err != nil {
				return err
			}
			at, ok := b.log.first(fmt.Sprintf("bench-%d", n), turn.state, began)
			i := 0
			for i < len(asked) && asked[i] < at.UnixNano() {
				i++
			}
			if !ok || i == 0 {
				l.missing = append(l.missing, n)
				continue
			}
			l.all = append(l.all, at.Sub(time.Unix(0, asked[i-1])))
		}
		t.exactly(name, fmt.Sprintf("of %d containers, never %s in HAProxy", some, turn.state), len(l.missing), 0)
		t.within(name, turn.what+" p99", l.at(0.99), 50*time.Millisecond)
		t.note(name, turn.what+" p50, max", "%s, %s", short(l.at(0.5)), short(l.at(1)))
	}
	return nil
}

// freeAddress returns an address on this host at which nobody listens.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// errTail is err with the end of a file, in which a process says why.
func errTail(err error, path string) error {
	text, _ := os.ReadFile(path)
	return fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
}
