package e2e

import (
	"time"

	"github.com/docker/docker/api/types/container"
)

// A new HAProxy takes all servers for good until the first answer, also one that was
// set aside by hand.
func (b *balanced) haproxyRestarts() {
	b.unready(1)
	b.shows("DOWN", b.addresses[1])
	b.operate(0, "state maint")
	begun := b.restartHAProxy()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	l.until(begun.Add(2*b.within + slack))
	l.unharmed()
	if w := b.worked(1); w.Last.After(begun) {
		late := w.Last.Sub(begun)
		b.t.Logf("%d requests came to the unready one, the last %v after HAProxy's start", l.by[b.addresses[1]], late)
		if most := b.within + slack + l.stalled; late > most {
			b.t.Errorf("a request came %v after HAProxy's start, want at most %v", late, most)
		}
	}
	b.ready(1)
}

// restartHAProxy returns when the new one began. It outlives the subtest.
func (b *balanced) restartHAProxy() time.Time {
	b.t.Helper()
	b.h.end()
	begun := time.Now()
	b.whole.h.start()
	b.h = b.whole.h.in(b.t)
	b.d.eventually(20*time.Second, "have HAProxy listen", func() error { _, err := b.h.ask("show info"); return err })
	return begun
}

// A container that is gone is as good as one that is not ready, and one that comes under
// its name takes its place.
func (b *balanced) containersComeAndGo() {
	if err := b.e.Client().ContainerStop(b.t.Context(), b.names[0], container.StopOptions{}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.e.Client().ContainerRemove(b.t.Context(), b.names[2], container.RemoveOptions{Force: true}); err != nil {
		b.t.Fatal(err)
	}
	b.shows("DOWN", b.addresses[0], b.addresses[2])
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the one left", func() error { return l.reached(b.addresses[1]) })
	if err := b.e.Client().ContainerStart(b.t.Context(), b.names[0], container.StartOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.whole.run(2)
	b.shows("UP", b.addresses...)
	l.fresh()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.unharmed()
}

// What healthd said last stays, and no request is lost.
func (b *balanced) agentDies() {
	b.unready(1)
	b.shows("DOWN (agent)", b.addresses[1])
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	before := b.worked(1).Count
	b.d.kill()
	b.set(1, "ready=200")
	l.until(time.Now().Add(3 * time.Second)) // three intervals
	if err := b.h.shows("DOWN (agent)", b.addresses[1]); err != nil {
		b.t.Error(err)
	}
	if err := b.h.shows("UP", b.addresses[0], b.addresses[2]); err != nil {
		b.t.Error(err)
	}
	if n := b.worked(1).Count - before; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	b.again()
	b.shows("UP", b.addresses...)
	l.fresh()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.unharmed()
}

// A new HAProxy that healthd tells nothing goes by the application's check alone.
func (b *balanced) bothDieWithAgent() {
	b.unready(1)
	b.d.kill()
	begun := b.restartHAProxy()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	l.until(begun.Add(2*b.within + slack))
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.unharmed()
	if err := b.h.shows("UP", b.addresses...); err != nil {
		b.t.Error(err)
	}
	b.again()
	b.shows("DOWN (agent)", b.addresses[1])
}

// Nothing that nobody vouches for gets a request: all are answered with 503 until
// healthd is back.
func (b *balanced) httpCheckDies() {
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	b.d.kill()
	took := b.d.eventually(20*time.Second, "be missed by HAProxy", func() error { return b.h.shows("DOWN", b.addresses...) })
	l.until(time.Now().Add(500 * time.Millisecond))
	begun := time.Now()
	b.again()
	b.shows("UP", b.addresses...)
	l.fresh()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	back := time.Since(begun)
	l.finish()
	b.t.Logf("all were down %v after the kill, and back %v after healthd's start; %d of %d requests failed", took, back, l.failed, l.sent)
	if most := b.within + slack + l.stalled; took > most {
		b.t.Errorf("HAProxy took all down after %v, want at most %v", took, most)
	}
	if l.failed == 0 || l.failures["status 503"] != l.failed {
		b.t.Errorf("%d requests failed, want some, all by 503: %v", l.failed, l.failures)
	}
}

func (b *balanced) bothDieWithHTTPCheck() {
	b.d.kill()
	b.restartHAProxy()
	b.d.eventually(20*time.Second, "be missed by a new HAProxy", func() error { return b.h.shows("DOWN", b.addresses...) })
	b.again()
	b.shows("UP", b.addresses...)
}
