package e2e

import (
	"errors"
	"strings"
	"syscall"
	"time"
)

// A new HAProxy has no servers until healthd has set them again, as soon as it sees the new
// process. An unready server gets no request.
func (b *haproxySetup) newHAProxyIsFilled() {
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1).Count
	begun := b.restartHAProxy()
	b.waitForServers(upOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	l.until(begun.Add(time.Second))
	if n := b.requestCount(1).Count - before; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	l.noFailuresSince(refilled)
	b.t.Logf("HAProxy had its servers again %v after its start; %v", refilled.Sub(begun), l.failures)
	if most := time.Second + slack + l.stalled(); refilled.Sub(begun) > most {
		b.t.Errorf("HAProxy had its servers again %v after its start, want at most %v", refilled.Sub(begun), most)
	}
	b.set(1, "ready=200")
	b.waitForServers(upOrSo, b.addresses...)
}

// Without healthd a new HAProxy has no servers.
func (b *haproxySetup) bothDieWithPush() {
	b.makeUnready(1)
	b.d.waitForJournal(b.names[1])
	b.d.kill()
	b.restartHAProxy()
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "be missed", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed < 20 {
			return errors.New("requests are answered")
		}
		return nil
	})
	b.restartHealthd()
	b.waitForServers(upOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	l.noFailuresSince(refilled)
	if n := l.by[b.addresses[1]]; n != 0 {
		b.t.Errorf("%d requests came to the one that was not ready", n)
	}
	b.set(1, "ready=200")
	b.waitForServers(upOrSo, b.addresses...)
}

// maintSurvivesRestarts: maint by an operator stays while healthd is killed, and while the
// container is restarted and replaced.
func (b *haproxySetup) maintSurvivesRestarts() {
	const i = 2
	name, _, err := b.h.server(b.addresses[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.setServer(i, "state maint")
	before := b.requestCount(i)
	held := func(when string) {
		b.t.Helper()
		b.d.until(30*time.Second, b.names[i], "ready", ready)
		if err := b.h.checkServers("MAINT", b.addresses[i]); err != nil {
			b.t.Errorf("%s: %v", when, err)
		}
		if now, _, _ := b.h.server(b.addresses[i]); now != name {
			b.t.Errorf("%s it is server %q, want %q", when, now, name)
		}
	}
	b.d.kill()
	b.restartHealthd()
	held("after healthd was killed")
	if w := b.requestCount(i); w != before {
		b.t.Errorf("%d requests came", w.Count-before.Count)
	}
	s, err := b.d.status(b.names[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.set(i, "status=500")
	b.d.until(30*time.Second, b.names[i], "restarted", func(now status) bool { return now.RestartCount > s.RestartCount && now.Ready })
	held("after a restart")
	b.e.Remove(b.t, b.names[i])
	b.d.eventually(20*time.Second, "forget the container", func() error {
		if _, err := b.d.status(b.names[i]); err == nil {
			return errors.New("it is still known")
		}
		return nil
	})
	b.whole.run(i)
	b.d.eventually(20*time.Second, "know the new container", func() error { _, err := b.d.status(b.names[i]); return err })
	held("after a replacement")
	if w := b.requestCount(i); w.Count != 0 {
		b.t.Errorf("%d requests came to the replacement", w.Count)
	}
	b.setServer(i, "state ready")
	b.waitForServers(upOrSo, b.addresses...)
}

// reload lets a new process of HAProxy take the place of the old one, as systemctl
// reload haproxy does, and returns when that was asked for.
func (h *haproxy) reload() time.Time {
	h.t.Helper()
	before, err := h.process()
	if err != nil {
		h.t.Fatal(err)
	}
	begun := time.Now()
	if err := h.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		h.t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for time.Since(begun) < 20*time.Second {
		<-tick.C
		if now, err := h.process(); err == nil && now != before {
			return begun
		}
	}
	h.t.Fatal("HAProxy was not reloaded")
	return begun
}

// process is which process of HAProxy answers.
func (h *haproxy) process() (string, error) {
	info, err := h.query("show info")
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
	b.whole.h.args = []string{"-W"} // master-worker mode, as a service of systemd
	b.restartHAProxy()
	b.waitForServers(upOrSo, b.addresses...)
	b.makeUnready(1)
	b.waitForServers("DOWN", b.addresses[1])
	l := startLoadOfNewConnections(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	before := b.requestCount(1)
	begun := b.h.reload()
	b.waitForServers(upOrSo, b.addresses[0], b.addresses[2])
	refilled := time.Now()
	b.waitForServers("DOWN", b.addresses[1])
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach the others", func() error { return l.reached(b.addresses[0], b.addresses[2]) })
	l.until(begun.Add(time.Second))
	l.noFailuresSince(refilled)
	after := b.requestCount(1)
	b.t.Logf("HAProxy had its servers again %v after the reload was requested: %v", refilled.Sub(begun), l.failures)
	most := time.Second + slack + l.stalled()
	if refilled.Sub(begun) > most {
		b.t.Errorf("HAProxy had its servers again %v after the reload was requested, want at most %v", refilled.Sub(begun), most)
	}
	if n, late := after.Count-before.Count, after.Last.Sub(begun); n > 0 {
		b.t.Logf("%d requests came to the one that was not ready, the last %v after the reload was requested", n, late)
		if filled || late > most {
			b.t.Errorf("want none, or none after %v", most)
		}
	}
	if n := l.failures["status 503"]; n > 0 && !filled {
		b.t.Errorf("%d requests were answered with 503 although the servers are configured", n)
	}
	b.set(1, "ready=200")
	b.waitForServers(upOrSo, b.addresses...)
}
