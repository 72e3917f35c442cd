package balancers

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
)

// A new HAProxy has no servers until healthd has set them again, as soon as it sees the new
// process. An unready server gets no request.
func (b *haproxySetup) newHAProxyIsFilled() {
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1).Count
	b.restartHAProxy()
	b.waitForServers(harness.UpOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.ResetReplicas()
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	b.leftAlone(1, l)
	if n := b.requestCount(1).Count - before; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	l.NoFailuresSince(refilled)
	b.set(1, "ready=200")
	b.waitForServers(harness.UpOrSo, b.addresses...)
}

// Without healthd a new HAProxy has no servers.
func (b *haproxySetup) bothDieWithPush() {
	b.makeUnready(1)
	b.d.WaitForJournal(b.names[1])
	b.d.Kill()
	b.restartHAProxy()
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("be missed", func() error { return l.Refused(20) })
	b.restartHealthd()
	b.waitForServers(harness.UpOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.ResetReplicas()
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	l.NoFailuresSince(refilled)
	if n := l.By[b.addresses[1]]; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	b.set(1, "ready=200")
	b.waitForServers(harness.UpOrSo, b.addresses...)
}

// maintSurvivesRestarts: maint by an operator stays while healthd is killed, and while the
// container is restarted and replaced.
func (b *haproxySetup) maintSurvivesRestarts() {
	const i = 2
	b.d.Eventually("have HAProxy grow old enough to be trusted", b.h.OldProcessEnded)
	name, _, err := b.h.Server(b.addresses[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.setServer(i, "state maint")
	before := b.requestCount(i)
	held := func(when string) {
		b.t.Helper()
		b.d.Until(b.names[i], "ready", harness.Ready)
		if err := b.h.CheckServers("MAINT", b.addresses[i]); err != nil {
			b.t.Errorf("%s: %v", when, err)
		}
		if now, _, _ := b.h.Server(b.addresses[i]); now != name {
			b.t.Errorf("%s it is server %q, want %q", when, now, name)
		}
	}
	b.d.Kill()
	b.restartHealthd()
	held("after healthd was killed")
	if w := b.requestCount(i); w != before {
		b.t.Errorf("%d requests came", w.Count-before.Count)
	}
	s, err := b.d.Status(b.names[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.set(i, "status=500")
	b.d.Until(b.names[i], "restarted", func(now harness.Status) bool { return now.RestartCount > s.RestartCount && now.Ready })
	held("after a restart")
	b.e.Remove(b.t, b.names[i])
	b.d.Eventually("forget the container", func() error {
		if _, err := b.d.Status(b.names[i]); err == nil {
			return errors.New("it is still known")
		}
		return nil
	})
	b.whole.run(i)
	b.d.Eventually("know the new container", func() error { _, err := b.d.Status(b.names[i]); return err })
	held("after a replacement")
	if w := b.requestCount(i); w.Count != 0 {
		b.t.Errorf("%d requests came to the replacement", w.Count)
	}
	b.setServer(i, "state ready")
	b.waitForServers(harness.UpOrSo, b.addresses...)
}

// reload lets a new process of HAProxy take the place of the old one, as systemctl
// reload haproxy does.
func reload(h *harness.HAProxy) {
	h.T.Helper()
	before, err := process(h)
	if err != nil {
		h.T.Fatal(err)
	}
	if err := h.Cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		h.T.Fatal(err)
	}
	patience.Until(h.T, "HAProxy is reloaded", func() error {
		if now, err := process(h); err != nil || now == before {
			return fmt.Errorf("%s answers, %w", now, err)
		}
		return nil
	})
}

// process is which process of HAProxy answers.
func process(h *harness.HAProxy) (string, error) {
	info, err := h.Query("show info")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "Pid: ") {
			return line, nil
		}
	}
	return "", errors.New("HAProxy does not tell its process")
}

// At a reload, the new process starts while the old one finishes its requests. Servers that
// healthd set are missing until healthd has set them in the new process.
func (b *haproxySetup) haproxyReloads(filled bool) {
	b.whole.h.Args = []string{"-W"} // master-worker mode, as a service of systemd
	b.restartHAProxy()
	b.waitForServers(harness.UpOrSo, b.addresses...)
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	l := harness.StartLoadOfNewConnections(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1)
	reload(b.h)
	b.waitForServers(harness.UpOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.ResetReplicas()
	b.d.Eventually("let requests reach the others", func() error { return l.Reached(b.addresses[0], b.addresses[2]) })
	b.leftAlone(1, l)
	l.NoFailuresSince(refilled)
	if n := b.requestCount(1).Count - before.Count; n > 0 && filled {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	if n := l.Failures["status 503"]; n > 0 && !filled {
		b.t.Errorf("%d requests were answered with 503 although the servers are configured", n)
	}
	b.set(1, "ready=200")
	b.waitForServers(harness.UpOrSo, b.addresses...)
}
