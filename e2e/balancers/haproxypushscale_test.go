package balancers

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"healthd/e2e/harness"
)

// docker stop sends its signal first, and healthd withdraws the server when it gets that
// event. Until then HAProxy still tries the replica, which accepts no new requests, and
// then another one; only requests just sent may fail.
func (b *haproxySetup) dockerStopWithdraws() {
	wide := b.all()
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	type stop struct{ asked, withdrawn time.Time }
	var stops []stop
	for i := 3; i < 6; i++ {
		b.whole.replicas[i].lingers = false
		b.whole.run(i)
		b.whole.replicas[i].lingers = true
		l.ResetReplicas()
		b.d.Eventually("let requests reach it", func() error { return l.Reached(wide.addresses[i]) })
		asked := time.Now()
		if err := b.e.Client().ContainerStop(b.t.Context(), wide.names[i], container.StopOptions{}); err != nil {
			b.t.Fatal(err)
		}
		b.waitForServers("DOWN", wide.addresses[i])
		stops = append(stops, stop{asked, time.Now()})
		b.e.Remove(b.t, wide.names[i])
		b.waitForServerRemoved(wide.addresses[i])
	}
	l.Finish()
	b.t.Logf("%d of %d requests failed: %v", l.Failed, l.Sent, l.Failures)
	for _, at := range l.FailedAt {
		const sent = 20 * time.Millisecond // before, and under way at the stop
		during := func(s stop) bool { return at.After(s.asked.Add(-sent)) && at.Before(s.withdrawn) }
		if !slices.ContainsFunc(stops, during) {
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
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	reached := func(addresses ...string) {
		b.t.Helper()
		b.waitForServers(harness.UpOrSo, addresses...)
		l.ResetReplicas()
		b.d.Eventually("let requests reach all", func() error { return l.Reached(addresses...) })
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
	l.NoFailures()
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
	b.d.Eventually("have HAProxy forget it", func() error {
		if name, _, err := b.h.Server(address); err == nil {
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
		b.d.Eventually("have the last request answered", func() error {
			if n, err := b.h.Sessions(b.addresses[i]); err != nil || n != "0" {
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

// unanswered returns how many requests a replica had to answer when it got its last stop signal, by its own log.
func (b *haproxySetup) unanswered(name string) string {
	b.t.Helper()
	logs, err := b.e.Client().ContainerLogs(b.t.Context(), name, container.LogsOptions{ShowStdout: true})
	if err != nil {
		b.t.Fatal(err)
	}
	defer logs.Close()
	var said bytes.Buffer
	if _, err := stdcopy.StdCopy(&said, io.Discard, logs); err != nil {
		b.t.Fatal(err)
	}
	all := regexp.MustCompile(`"UnderWay":(\d+)`).FindAllStringSubmatch(said.String(), -1)
	if len(all) == 0 {
		b.t.Fatalf("%s got no signal: %s", name, &said)
	}
	return all[len(all)-1][1]
}
