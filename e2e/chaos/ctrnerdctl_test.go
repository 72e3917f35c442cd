package chaos

import (
	"healthd/e2e/patience"

	"errors"
	"fmt"
	"syscall"
	"time"

	"healthd/runtime/containerd/containerdtest"
)

func (c *ctrChaos) stop(s *ctrTarget) {
	c.endByOperator(s, "nerdctl stop", func(k *ctrCall, pid uint32) error {
		if err := k.signal(syscall.SIGTERM); err != nil || c.awaitEnd(s, pid, ctrStopTimeout*time.Second) == nil {
			return err
		}
		return errors.Join(k.signal(syscall.SIGKILL), c.awaitEnd(s, pid, patience.Limit))
	})
}

func (c *ctrChaos) kill(s *ctrTarget, sig syscall.Signal) {
	c.endByOperator(s, fmt.Sprintf("nerdctl kill (%v)", sig), func(k *ctrCall, pid uint32) error {
		err := k.signal(sig)
		_ = c.awaitEnd(s, pid, ctrStopTimeout*time.Second)
		return err
	})
}

// endByOperator sets nerdctl's label, and lets end do the rest. One that has ended gets the
// label, too.
func (c *ctrChaos) endByOperator(s *ctrTarget, what string, end func(*ctrCall, uint32) error) {
	before := c.snapshot(s)
	if before.paused || before.wanted == wantedRemoved {
		return
	}
	k, cancel, err := c.call(s)
	defer cancel()
	begun := time.Now()
	if err == nil {
		err = k.label("true")
	}
	labelled := time.Now()
	if err == nil {
		err = end(k, before.pid)
	}
	c.judgeStop(s, before, begun, labelled, err)
	c.note(s, "%s (%v)", what, err)
}

func (c *ctrChaos) judgeStop(s *ctrTarget, before ctrSnapshot, begun, labelled time.Time, err error) {
	now := c.snapshot(s)
	again := !before.labelled.IsZero() // no field shows a second time
	switch {
	case err != nil:
		c.setUnclear(s, failedAct)
	case now.startCall.After(labelled.Add(ctrNoticed)):
		c.fail(s.name, "healthd started it at %v, which the operator stopped at %v", now.startCall, labelled)
		c.setUnclear(s, crossedStart)
	case now.starting || now.startDone.After(begun) || now.startCall.After(begun) || now.pid != before.pid:
		c.setUnclear(s, crossedStart)
		c.change(func() { s.present.labelled, s.present.deafened = labelled, true }) // maybe before the run
	case now.runs: // the signal ended nothing
		c.change(func() {
			s.present.deafened = s.present.deafened || !before.listening || !now.listening
			s.present.labelled = labelled
		})
	case again && (before.deafened || !before.listening || !now.listening):
		c.setUnclear(s, labelledDeaf)
	default:
		c.setWanted(s, wantedStopped, labelled)
	}
}

func (c *ctrChaos) start(s *ctrTarget) {
	if k := c.snapshot(s); k.runs || k.paused {
		return
	}
	c.startByOperator(s, "nerdctl start", (*ctrCall).start)
}

func (c *ctrChaos) restart(s *ctrTarget) {
	if k := c.snapshot(s); k.paused {
		return
	}
	c.startByOperator(s, "nerdctl restart", func(k *ctrCall) error {
		err := errors.Join(k.label("true"), k.signal(syscall.SIGKILL))
		return errors.Join(err, c.awaitEnd(s, c.snapshot(s).pid, patience.Limit), k.start())
	})
}

// startByOperator starts a container: from then on, it is wanted running.
func (c *ctrChaos) startByOperator(s *ctrTarget, what string, do func(*ctrCall) error) {
	c.setUnclear(s, underWay)
	k, cancel, err := c.call(s)
	defer cancel()
	if err == nil {
		err = do(k)
	}
	if err == nil {
		err = c.await(patience.Limit, func() error {
			if now := c.snapshot(s); now.pid == 0 {
				return errors.New("no event tells of its start")
			}
			return nil
		})
	}
	if err != nil {
		c.setUnclear(s, failedAct)
	} else {
		c.change(func() { // an end since then is judged by what it is now
			s.wanted, s.since = wantedRunning, time.Time{}
			c.acts["wanted "+wantedRunning.String()]++
			s.unjudged = !s.present.runs
		})
	}
	c.note(s, "%s (%v)", what, err)
}

// recreate removes the container, if it exists, and creates another of the same name.
func (c *ctrChaos) recreate(s *ctrTarget) {
	if c.snapshot(s).id != "" {
		c.setUnclear(s, underWay)
		begun, starting := time.Now(), c.snapshot(s).starting
		k, cancel, err := c.call(s)
		defer cancel()
		if err == nil {
			err = k.remove()
		}
		c.change(func() {
			first := s.startCall.Sub(begun)
			c.crossed[s.key()] = starting || first > 0 && first < ctrNoticed
		})
		c.note(s, "nerdctl rm -f (%v)", err)
	}
	timeout := ctrStopTimeout
	id := c.e.Create(c.t, containerdtest.RunOptions{
		Namespace: s.kind.namespace, Name: s.name, Cmd: s.kind.cmd(), Labels: map[string]string{"e2e": s.kind.name}, StopTimeout: &timeout,
	})
	c.change(func() {
		delete(c.byKey, s.key())
		s.id, s.present, s.last, s.unjudged = id, ctrRun{}, ctrRun{}, false
		c.byKey[s.key()] = s
	})
	c.startByOperator(s, "nerdctl run", (*ctrCall).start)
}
