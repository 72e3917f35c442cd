package chaos

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime/containerd/containerdtest"
)

// injectFault harms healthd, containerd or the connection between them, and waits until that
// is over.
func (c *ctrChaos) injectFault(r *rand.Rand, mortal bool) {
	during := 200*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second)))
	all := []struct {
		name string
		do   func(time.Duration)
	}{
		{"kill -9 of healthd", c.killHealthd},
		{"kill -9 of healthd", c.killHealthd},
		{"SIGTERM to healthd", c.restartHealthd},
		{"kill -9 of healthd and containerd", c.killBoth},
		{"kill -9 of containerd", func(d time.Duration) { c.restartContainerd((*containerdtest.Engine).Kill, d) }},
		{"SIGTERM to containerd", func(d time.Duration) { c.restartContainerd((*containerdtest.Engine).Stop, d) }},
		{"SIGSTOP of containerd", c.freezeContainerd},
		{"SIGHUP to healthd", c.reloadHealthd},
		{"a cut connection", c.cut},
		{"connections refused", c.refuse},
		{"a stalled connection", c.stall},
		{"answers lost", c.loseAnswers},
	}
	if !mortal {
		all = all[4:]
	}
	chosen := all[r.IntN(len(all))]
	c.log("everybody", "%s for %v", chosen.name, during)
	c.change(func() { c.activeFaults++; c.acts[chosen.name]++ })
	chosen.do(during)
	c.d.Eventually("hear containerd again", func() error { return c.d.RuntimeUp("1") })
	c.change(func() { c.activeFaults--; c.calm, c.listening = time.Now(), time.Now() })
	c.log("everybody", "%s is over", chosen.name)
}

func (c *ctrChaos) killHealthd(during time.Duration) {
	c.isDeaf()
	c.change(func() { c.killed[c.d.Cmd.Process.Pid] = true })
	c.d.Kill()
	time.Sleep(during)
	c.upHealthd()
}

func (c *ctrChaos) restartHealthd(during time.Duration) {
	c.isDeaf()
	if err := c.d.Stop(); err != nil {
		c.fail("everybody", "healthd did not end well: %v", err)
	}
	time.Sleep(during)
	c.upHealthd()
}

func (c *ctrChaos) reloadHealthd(time.Duration) {
	if err := c.d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		c.fail("everybody", "healthd cannot reload: %v", err)
	}
}

// withoutContainerd ends containerd and starts it again, while containers run on, and one is
// killed. Nobody can connect meanwhile, nor use an old connection.
func (c *ctrChaos) withoutContainerd(end func(*containerdtest.Engine, testing.TB), meanwhile func()) {
	defer c.pauseOperators()()
	c.isDeaf()
	select {
	case <-c.heard:
	default:
	}
	c.p.refuse()
	end(c.e, c.t)
	c.crashOne()
	meanwhile()
	c.e.Up(c.t)
	c.p.accept()
	<-c.heard
}

// crashOne kills the main process of a container.
func (c *ctrChaos) crashOne() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subjects[c.loss.IntN(len(c.subjects))]
	if !s.present.runs || s.present.paused {
		return
	}
	err := syscall.Kill(int(s.present.pid), syscall.SIGKILL)
	c.lines = append(c.lines, chaosLine{time.Now(), s.name, "killed while containerd is away"})
	if err != nil {
		c.failLocked(s.name, "cannot be killed: %v", err)
	}
}

func (c *ctrChaos) restartContainerd(end func(*containerdtest.Engine, testing.TB), during time.Duration) {
	c.withoutContainerd(end, func() { time.Sleep(during) })
}

func (c *ctrChaos) killBoth(during time.Duration) {
	c.withoutContainerd((*containerdtest.Engine).Kill, func() {
		c.change(func() { c.killed[c.d.Cmd.Process.Pid] = true })
		c.d.Kill()
		time.Sleep(during)
	})
	c.upHealthd()
}

func (c *ctrChaos) freezeContainerd(during time.Duration) {
	defer c.pauseOperators()()
	c.e.Freeze(c.t)
	time.Sleep(2 * during)
	c.e.Thaw(c.t)
	time.Sleep(noticed)
}

func (c *ctrChaos) cut(time.Duration) { c.refuse(0) }

func (c *ctrChaos) refuse(during time.Duration) {
	c.isDeaf()
	before := c.reconnections()
	c.p.refuse()
	time.Sleep(during)
	c.p.accept()
	c.d.Eventually("notice that it was cut off", func() error {
		if c.reconnections() == before {
			return errors.New("no word of it")
		}
		return nil
	})
}

// reconnections returns how often healthd was without containerd.
func (c *ctrChaos) reconnections() int { return strings.Count(c.d.Log.String(), "RuntimeBack") }

func (c *ctrChaos) stall(during time.Duration) {
	defer c.pauseOperators()()
	c.isDeaf()
	c.p.stall()
	time.Sleep(2 * during)
	c.p.resume()
	time.Sleep(noticed)
}

func (c *ctrChaos) loseAnswers(during time.Duration) {
	c.isDeaf()
	c.change(func() { c.losing = true })
	time.Sleep(2 * during)
	c.change(func() { c.losing = false })
	c.cut(0) // whatever was lost before, this one is noticed
}
