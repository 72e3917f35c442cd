package e2e

import (
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// A new HAProxy takes all servers for up until the first check, also one that an operator
// had set to drain or maint.
func (b *haproxySetup) haproxyRestarts() {
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	b.setServer(0, "state maint")
	begun := b.restartHAProxy()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	l.until(begun.Add(2*b.within + slack))
	b.noFailuresOnceChecked(l)
	if w := b.requestCount(1); w.Last.After(begun) {
		late := w.Last.Sub(begun)
		b.t.Logf("%d requests came to the unready one, the last %v after HAProxy's start", l.by[b.addresses[1]], late)
		if most := b.within + slack + l.stalled(); late > most {
			b.t.Errorf("a request came %v after HAProxy's start, want at most %v", late, most)
		}
	}
	b.makeReady(1)
}

// noFailuresOnceChecked is noFailures for a new HAProxy that has servers without a
// container. It takes them for up until their first check, and answers 503 when all
// retries of a request meet such servers.
func (b *haproxySetup) noFailuresOnceChecked(l *load) {
	b.t.Helper()
	var absent []string
	for _, r := range b.replicas {
		if !slices.Contains(b.addresses, r.address) {
			absent = append(absent, r.address)
		}
	}
	b.waitForServers("DOWN", absent...)
	checked := time.Now()
	l.until(checked.Add(500 * time.Millisecond))
	l.noFailuresSince(checked)
	if l.failures["status 503"] != l.failed || l.failed > l.sent/10 {
		b.t.Errorf("%d of %d requests failed, want a few, all by 503: %v", l.failed, l.sent, l.failures)
	}
}

// restartHAProxy returns when the new one began. It outlives the subtest.
func (b *haproxySetup) restartHAProxy() time.Time {
	b.t.Helper()
	b.h.kill()
	begun := time.Now()
	b.whole.h.start()
	b.h = b.whole.h.in(b.t)
	b.d.eventually(20*time.Second, "have HAProxy listen", func() error { _, err := b.h.query("show info"); return err })
	return begun
}

// A removed container counts as not ready, and a new one of its name replaces it.
func (b *haproxySetup) containersComeAndGo() {
	if err := b.e.Client().ContainerStop(b.t.Context(), b.names[0], container.StopOptions{}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.e.Client().ContainerRemove(b.t.Context(), b.names[2], container.RemoveOptions{Force: true}); err != nil {
		b.t.Fatal(err)
	}
	b.waitForServers("DOWN", b.addresses[0], b.addresses[2])
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the one left", func() error { return l.reached(b.addresses[1]) })
	if err := b.e.Client().ContainerStart(b.t.Context(), b.names[0], container.StartOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.whole.run(2)
	b.waitForServers("UP", b.addresses...)
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.noFailures()
}

// HAProxy keeps the last agent state, and no request is lost.
func (b *haproxySetup) healthdDiesWithAgent() {
	b.makeUnready(1)
	b.waitForServers("DOWN (agent)", b.addresses[1])
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1).Count
	b.d.kill()
	b.set(1, "ready=200")
	l.until(time.Now().Add(3 * time.Second)) // three intervals
	if err := b.h.checkServers("DOWN (agent)", b.addresses[1]); err != nil {
		b.t.Error(err)
	}
	if err := b.h.checkServers("UP", b.addresses[0], b.addresses[2]); err != nil {
		b.t.Error(err)
	}
	if n := b.requestCount(1).Count - before; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.noFailures()
}

// A new HAProxy without healthd has only the application's health check.
func (b *haproxySetup) bothDieWithAgent() {
	b.makeUnready(1)
	b.d.waitForJournal(b.names[1])
	b.d.kill()
	begun := b.restartHAProxy()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	l.until(begun.Add(2*b.within + slack))
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	b.noFailuresOnceChecked(l)
	if err := b.h.checkServers("UP", b.addresses...); err != nil {
		b.t.Error(err)
	}
	b.restartHealthd()
	b.waitForServers("DOWN (agent)", b.addresses[1])
}

// Without healthd's answers no server is up: all requests get 503 until healthd is back.
func (b *haproxySetup) healthdDiesWithHTTPCheck() {
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	b.d.kill()
	took := b.d.eventually(20*time.Second, "be missed by HAProxy", func() error { return b.h.checkServers("DOWN", b.addresses...) })
	l.until(time.Now().Add(500 * time.Millisecond))
	begun := time.Now()
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	back := time.Since(begun)
	l.finish()
	b.t.Logf("all were down %v after the kill, and back %v after healthd's start; %d of %d requests failed", took, back, l.failed, l.sent)
	if most := b.within + slack + l.stalled(); took > most {
		b.t.Errorf("HAProxy took all down after %v, want at most %v", took, most)
	}
	if l.failed == 0 || l.failures["status 503"] != l.failed {
		b.t.Errorf("%d requests failed, want some, all by 503: %v", l.failed, l.failures)
	}
}

func (b *haproxySetup) bothDieWithHTTPCheck() {
	b.d.kill()
	b.restartHAProxy()
	b.d.eventually(20*time.Second, "be missed by a new HAProxy", func() error { return b.h.checkServers("DOWN", b.addresses...) })
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
}
