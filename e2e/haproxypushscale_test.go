package e2e

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// docker stop sends its signal first, and healthd withdraws the server when it gets that
// event. Until then HAProxy still tries the replica, which accepts no new requests, and
// then another one; only requests just sent may fail.
func (b *haproxySetup) dockerStopWithdraws() {
	wide := b.all()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	signals := []time.Time{}
	for i := 3; i < 6; i++ {
		b.whole.replicas[i].lingers = false
		b.whole.run(i)
		b.whole.replicas[i].lingers = true
		l.resetReplicas()
		b.d.eventually(20*time.Second, "let requests reach it", func() error { return l.reached(wide.addresses[i]) })
		if err := b.e.Client().ContainerStop(b.t.Context(), wide.names[i], container.StopOptions{}); err != nil {
			b.t.Fatal(err)
		}
		b.waitForServers("DOWN", wide.addresses[i])
		signal := b.signalled(wide.names[i])
		signals = append(signals, signal)
		withdrawn := b.last(wide.names[i], "NotReady").Time.Sub(signal)
		b.t.Logf("%s: healthd knew %v after its signal", wide.names[i], withdrawn)
		if most := b.within + slack + l.stalled(); withdrawn > most {
			b.t.Errorf("%s was withdrawn %v after its signal, want at most %v", wide.names[i], withdrawn, most)
		}
		b.e.Remove(b.t, wide.names[i])
		b.waitForServerRemoved(wide.addresses[i])
	}
	l.finish()
	b.t.Logf("%d of %d requests failed: %v", l.failed, l.sent, l.failures)
	for _, at := range l.failedAt {
		near := func(signal time.Time) bool { return at.Sub(signal).Abs() < b.within+slack+l.stalled() }
		if !slices.ContainsFunc(signals, near) {
			b.t.Errorf("a request failed that was sent at %v, when no replica was being stopped", at)
		}
	}
}

// all is the balanced with all replicas that there may be.
func (b *haproxySetup) all() *haproxySetup {
	wide := *b
	wide.names, wide.addresses = nil, nil
	for _, r := range b.replicas {
		wide.names, wide.addresses = append(wide.names, r.name), append(wide.addresses, r.address)
	}
	return &wide
}

// scales lets three replicas become six, two, and three again.
func (b *haproxySetup) scales(stop func(b *haproxySetup, replicas ...int)) {
	wide := b.all()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	reached := func(addresses ...string) {
		b.t.Helper()
		b.waitForServers(upOrSo, addresses...)
		l.resetReplicas()
		b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(addresses...) })
	}
	for i := 3; i < 6; i++ {
		b.whole.run(i)
	}
	reached(wide.addresses...)
	stop(wide, 0, 1, 2, 3)
	reached(wide.addresses[4:]...)
	for i := range 3 {
		b.whole.run(i)
	}
	reached(append(slices.Clone(b.addresses), wide.addresses[4:]...)...)
	stop(wide, 4, 5)
	reached(b.addresses...)
	l.noFailures()
}

// stopTogether stops and removes replicas as Compose does: all at once.
func (b *haproxySetup) stopTogether(replicas ...int) {
	b.t.Helper()
	var stopping sync.WaitGroup
	for _, i := range replicas {
		stopping.Go(func() {
			if err := b.e.Client().ContainerStop(b.t.Context(), b.names[i], container.StopOptions{}); err != nil {
				b.t.Error(err)
			}
			b.e.Remove(b.t, b.names[i])
		})
	}
	stopping.Wait()
	for _, i := range replicas {
		b.waitForServerRemoved(b.addresses[i])
	}
}

// waitForServerRemoved waits until HAProxy has no such server any more.
func (b *haproxySetup) waitForServerRemoved(address string) {
	b.t.Helper()
	b.d.eventually(20*time.Second, "have HAProxy forget it", func() error {
		if name, _, err := b.h.server(address); err == nil {
			return fmt.Errorf("HAProxy still has %s at %s", name, address)
		}
		return nil
	})
}

// drainThenStop sets replicas to drain in HAProxy before it stops and removes them, for setups
// in which HAProxy learns of a stop too late.
func (b *haproxySetup) drainThenStop(replicas ...int) {
	b.t.Helper()
	for _, i := range replicas {
		b.setServer(i, "state drain")
	}
	for _, i := range replicas {
		b.d.eventually(20*time.Second, "have the last request answered", func() error {
			if n, err := b.h.sessions(b.addresses[i]); err != nil || n != "0" {
				return fmt.Errorf("%s sessions at %s, %v", n, b.addresses[i], err)
			}
			return nil
		})
		if err := b.e.Client().ContainerStop(b.t.Context(), b.names[i], container.StopOptions{}); err != nil {
			b.t.Fatal(err)
		}
		b.e.Remove(b.t, b.names[i])
	}
	for _, i := range replicas {
		b.waitForServers("DOWN", b.addresses[i])
		b.setServer(i, "state ready")
	}
}

// signalled returns when a replica got its last stop signal, by its own log.
func (b *haproxySetup) signalled(name string) time.Time {
	b.t.Helper()
	logs, err := b.e.Client().ContainerLogs(b.t.Context(), name, container.LogsOptions{ShowStdout: true, Timestamps: true})
	if err != nil {
		b.t.Fatal(err)
	}
	defer logs.Close()
	var said bytes.Buffer
	if _, err := stdcopy.StdCopy(&said, io.Discard, logs); err != nil {
		b.t.Fatal(err)
	}
	stamps := map[string]time.Time{}
	for line := range strings.Lines(said.String()) {
		stamp, words, _ := strings.Cut(strings.TrimSpace(line), " ")
		if stamps[words], err = time.Parse(time.RFC3339Nano, stamp); err != nil {
			b.t.Fatal(err)
		}
	}
	at := stamps["asked to stop"] // says one that lingers first
	if at.IsZero() {
		at = stamps["got terminated"]
	}
	if at.IsZero() {
		b.t.Fatalf("%s got no signal: %s", name, &said)
	}
	return at
}
