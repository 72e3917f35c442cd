package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// ctrAct is an operator's act on a container, or something that happens to it.
type ctrAct struct {
	name  string
	share int
	do    func(*ctrChaos, *ctrTarget)
}

var ctrActs = []ctrAct{
	{"nerdctl stop", 4, (*ctrChaos).stop},
	{"nerdctl kill", 2, func(c *ctrChaos, s *ctrTarget) { c.kill(s, syscall.SIGKILL) }},
	{"nerdctl kill -s TERM", 3, func(c *ctrChaos, s *ctrTarget) { c.kill(s, syscall.SIGTERM) }},
	{"nerdctl start", 7, (*ctrChaos).start},
	{"nerdctl restart", 2, (*ctrChaos).restart},
	{"nerdctl pause", 1, (*ctrChaos).pauseContainer},
	{"nerdctl unpause", 3, (*ctrChaos).unpause},
	{"nerdctl rm -f", 2, (*ctrChaos).recreate},
	{"ctr tasks kill", 2, func(c *ctrChaos, s *ctrTarget) { c.crash(s, syscall.SIGKILL) }},
	{"ctr tasks kill -s TERM", 2, func(c *ctrChaos, s *ctrTarget) { c.crash(s, syscall.SIGTERM) }},
	{"ctr tasks delete", 1, func(c *ctrChaos, s *ctrTarget) { c.deleteTask(s, false) }},
	{"ctr tasks delete -f", 1, func(c *ctrChaos, s *ctrTarget) { c.deleteTask(s, true) }},
	{"healthd restart", 2, (*ctrChaos).healthdRestart},
	{"sicken", 5, (*ctrChaos).sicken},
}

// runOperator does random acts until the chaos ends.
func (c *ctrChaos) runOperator(r *rand.Rand) {
	var all []ctrAct
	for _, a := range ctrActs {
		for range a.share {
			all = append(all, a)
		}
	}
	for {
		s, a := c.subjects[r.IntN(len(c.subjects))], all[r.IntN(len(all))]
		select {
		case <-c.raging:
			return
		case <-time.After(50*time.Millisecond + time.Duration(r.Int64N(int64(300*time.Millisecond)))):
		}
		c.exclusively(s, a.do)
	}
}

// exclusively runs act while no other operator acts on the container and containerd is not
// harmed.
func (c *ctrChaos) exclusively(s *ctrTarget, act func(*ctrChaos, *ctrTarget)) {
	c.engine.RLock()
	defer c.engine.RUnlock()
	s.actLock.Lock()
	defer s.actLock.Unlock()
	c.change(func() { s.busy = true })
	act(c, s)
	c.change(func() {
		if s.busy, s.down = false, 0; s.unjudged {
			c.judgeEnd(s)
		}
	})
}

func (c *ctrChaos) note(s *ctrTarget, format string, args ...any) {
	c.log(s.name, format+" → %v", append(args, c.snapshot(s).wanted)...)
}

// ctrSnapshot is what is known of a container at one moment.
type ctrSnapshot struct {
	ctrRun
	id        string
	wanted    wantedState
	starting  bool
	startCall time.Time
	startDone time.Time
	listening bool
}

func (c *ctrChaos) snapshot(s *ctrTarget) ctrSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ctrSnapshot{s.present, s.id, s.wanted, s.starting > 0, s.startCall, s.startDone, !c.listening.IsZero()}
}

// awaitEnd waits until the model knows that the run has ended.
func (c *ctrChaos) awaitEnd(s *ctrTarget, pid uint32, within time.Duration) error {
	return c.await(within, func() error {
		if k := c.snapshot(s); k.pid == pid && k.runs {
			return errors.New("it runs on")
		}
		return nil
	})
}

func (c *ctrChaos) pauseContainer(s *ctrTarget) {
	if k := c.snapshot(s); !k.runs || k.paused || s.kind.ends {
		return
	}
	k, cancel, err := c.call(s)
	defer cancel()
	if err == nil {
		err = k.pause()
	}
	c.change(func() { s.present.paused = err == nil && s.present.runs })
	c.note(s, "nerdctl pause (%v)", err)
}

func (c *ctrChaos) unpause(s *ctrTarget) {
	if !c.snapshot(s).paused {
		return
	}
	k, cancel, err := c.call(s)
	defer cancel()
	if err == nil {
		err = k.unpause()
	}
	c.change(func() { s.present.paused = false })
	c.note(s, "nerdctl unpause (%v)", err)
}

// crash sends a signal without nerdctl's label: nothing tells that somebody did.
func (c *ctrChaos) crash(s *ctrTarget, sig syscall.Signal) {
	before := c.snapshot(s)
	if !before.runs || before.paused {
		return
	}
	k, cancel, err := c.call(s)
	defer cancel()
	if err == nil {
		err = k.signal(sig)
	}
	_ = c.awaitEnd(s, before.pid, time.Second)
	c.note(s, "ctr tasks kill %v (%v)", sig, err)
}

// deleteTask deletes the task behind healthd's back. With it goes the exit code.
func (c *ctrChaos) deleteTask(s *ctrTarget, forced bool) {
	before := c.snapshot(s)
	if before.paused || before.wanted == wantedRemoved || before.runs && !forced {
		return
	}
	k, cancel, err := c.call(s)
	defer cancel()
	if err == nil {
		err = k.deleteTask(forced)
	}
	if before.runs {
		_ = c.awaitEnd(s, before.pid, time.Second)
	}
	c.mu.Lock()
	seen := !c.listening.IsZero() && time.Since(c.listening) > noticed && time.Since(s.present.ended) > noticed // waits: likewise
	c.mu.Unlock()
	if !seen && s.kind.policy == "OnFailure" && c.snapshot(s).wanted != wantedStopped {
		c.setUnclear(s, lostCode)
	}
	c.note(s, "ctr tasks delete, forced: %v (%v)", forced, err)
}

func (c *ctrChaos) healthdRestart(s *ctrTarget) {
	before := c.snapshot(s)
	if before.paused || s.kind.foreign {
		return
	}
	c.setUnclear(s, underWay)
	c.change(func() { s.present.asked, s.asking = true, true })
	err := c.cli("restart", s.name)
	c.change(func() { s.asking = false })
	switch {
	case err == nil, before.wanted == wantedRunning && s.kind.policy == "Always":
		c.change(func() {
			s.wanted, s.since = wantedRunning, time.Time{}
			s.unjudged = !s.present.runs
		})
	default:
		c.setUnclear(s, failedAct)
	}
	c.note(s, "healthd restart (%v)", err)
}

// sicken makes the liveness probe fail, from outside: a command would be an exec of its own.
func (c *ctrChaos) sicken(s *ctrTarget) {
	k := c.snapshot(s)
	if !k.runs || k.paused || !s.kind.probed {
		return
	}
	c.change(func() { s.present.sick = true })
	err := os.WriteFile(fmt.Sprintf("/proc/%d/root/dev/shm/sick", k.pid), nil, 0o600)
	c.note(s, "made sick (%v)", err)
}
