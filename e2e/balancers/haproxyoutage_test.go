package balancers

import (
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
)

// A new HAProxy takes all servers for up until the first check, also one that an operator
// had set to drain or maint.
func (b *haproxySetup) haproxyRestarts() {
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	b.setServer(0, "state maint")
	b.restartHAProxy()
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	b.waitForServers("DOWN", b.addresses[1])
	b.leftAlone(1, l)
	b.noFailuresOnceChecked(l)
	b.makeReady(1)
}

// noFailuresOnceChecked is NoFailures for a new HAProxy that has servers without a
// container. It takes them for up until their first check, and answers 503 when all
// retries of a request meet such servers.
func (b *haproxySetup) noFailuresOnceChecked(l *harness.Load) {
	b.t.Helper()
	var absent []string
	for _, r := range b.replicas {
		if !slices.Contains(b.addresses, r.address) {
			absent = append(absent, r.address)
		}
	}
	b.waitForServers("DOWN", absent...)
	checked := time.Now()
	l.ResetReplicas()
	b.d.Eventually("let requests reach some", func() error { return l.Reached(b.addresses[0]) })
	l.NoFailuresSince(checked)
	if l.Failures["status 503"] != l.Failed {
		b.t.Errorf("%d of %d requests failed, want all of those by 503: %v", l.Failed, l.Sent, l.Failures)
	}
}

// restartHAProxy starts one that outlives the subtest.
func (b *haproxySetup) restartHAProxy() {
	b.t.Helper()
	b.h.Kill()
	b.whole.h.Start()
	b.h = b.whole.h.In(b.t)
	b.d.Eventually("have HAProxy listen", func() error { _, err := b.h.Query("show info"); return err })
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
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the one left", func() error { return l.Reached(b.addresses[1]) })
	if err := b.e.Client().ContainerStart(b.t.Context(), b.names[0], container.StartOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.whole.run(2)
	b.waitForServers("UP", b.addresses...)
	l.ResetReplicas()
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	l.NoFailures()
}

// HAProxy keeps the last agent state, and no request is lost.
func (b *haproxySetup) healthdDiesWithAgent() {
	b.makeUnready(1)
	b.waitForServers("DOWN (agent)", b.addresses[1])
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1).Count
	b.d.Kill()
	b.set(1, "ready=200")
	l.Until(time.Now().Add(3 * time.Second)) // three intervals
	if err := b.h.CheckServers("DOWN (agent)", b.addresses[1]); err != nil {
		b.t.Error(err)
	}
	if err := b.h.CheckServers(harness.UpOrSo, b.addresses[0], b.addresses[2]); err != nil {
		b.t.Error(err)
	}
	if n := b.requestCount(1).Count - before; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
	l.ResetReplicas()
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	l.NoFailures()
}

// A new HAProxy without healthd has only the application's health check.
func (b *haproxySetup) bothDieWithAgent() {
	b.makeUnready(1)
	b.d.WaitForJournal(b.names[1])
	b.d.Kill()
	b.restartHAProxy()
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	b.noFailuresOnceChecked(l)
	if err := b.h.CheckServers(harness.UpOrSo, b.addresses...); err != nil {
		b.t.Error(err)
	}
	b.restartHealthd()
	b.waitForServers("DOWN (agent)", b.addresses[1])
}

// Without healthd's answers no server is up: all requests get 503 until healthd is back.
func (b *haproxySetup) healthdDiesWithHTTPCheck() {
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	b.d.Kill()
	b.d.Eventually("be missed by HAProxy", func() error { return b.h.CheckServers("DOWN", b.addresses...) })
	b.d.Eventually("have requests refused", func() error { return l.Refused(1) })
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
	l.ResetReplicas()
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	l.Finish()
	if l.Failures["status 503"] != l.Failed {
		b.t.Errorf("%d of %d requests failed, want all of those by 503: %v", l.Failed, l.Sent, l.Failures)
	}
}

func (b *haproxySetup) bothDieWithHTTPCheck() {
	b.d.Kill()
	b.restartHAProxy()
	b.d.Eventually("be missed by a new HAProxy", func() error { return b.h.CheckServers("DOWN", b.addresses...) })
	b.restartHealthd()
	b.waitForServers("UP", b.addresses...)
}
