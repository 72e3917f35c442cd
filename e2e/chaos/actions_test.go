package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
)

// act is an operator's action on a container, or something that happens to it.
type act struct {
	name  string
	share int
	do    func(*chaos, *target)
}

var chaosActs = []act{
	{"stop", 4, (*chaos).stop}, {"kill", 2, (*chaos).kill}, {"start", 6, (*chaos).start}, {"restart", 2, (*chaos).restart},
	{"pause", 1, (*chaos).pauseContainer}, {"unpause", 3, (*chaos).unpause}, {"recreate", 2, (*chaos).recreate},
	{"hold", 1, (*chaos).hold}, {"resume", 3, (*chaos).resume}, {"healthd restart", 2, (*chaos).healthdRestart},
	{"crash", 4, (*chaos).crash}, {"end", 3, (*chaos).end}, {"sicken", 5, (*chaos).failLiveness},
}

// runOperator does random acts until ctx ends.
func (c *chaos) runOperator(r *rand.Rand) {
	var all []act
	for _, a := range chaosActs {
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
		if !s.kind.rm || a.name != "healthd restart" && a.name != "hold" {
			c.exclusively(s, a.do)
		}
	}
}

// exclusively runs act while no other operator acts on the target and the engine is not harmed.
func (c *chaos) exclusively(s *target, act func(*chaos, *target)) {
	c.engine.RLock()
	defer c.engine.RUnlock()
	s.actLock.Lock()
	defer s.actLock.Unlock()
	c.change(func() { s.busy = true })
	act(c, s)
	c.change(func() { s.busy, s.down = false, 0 })
}

func (c *chaos) note(s *target, format string, args ...any) {
	c.log(s.name, format+" → %v", append(args, c.snapshot(s).wanted)...)
}

// snapshot is what is known of a target at one moment.
type snapshot struct {
	id                string
	wanted            wantedState
	runs, paused      bool
	held, sick        bool
	stops, terms      int
	diedAt            time.Time
	termAt, killedAt  time.Time
	startCall, heldAt time.Time
}

func (c *chaos) snapshot(s *target) snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return snapshot{s.id, s.wanted, s.runs, s.paused, s.held, s.unhealthy, s.stops, s.terms, s.diedAt, s.termAt, s.killedAt, s.startCall, s.heldAt}
}

func (c *chaos) setWanted(s *target, w wantedState, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wanted, s.since, s.restartAfterHold = w, since, false
	if w == wantedStopped || w == wantedEnded {
		s.taken = false
	}
	c.acts["wanted "+w.String()]++
}

func (c *chaos) hold(s *target) {
	k := c.snapshot(s)
	if k.held || k.wanted == wantedRemoved {
		return
	}
	err := c.cli("hold", s.name)
	c.change(func() {
		s.held = true // if there was an error, it may be
		if err == nil {
			s.heldAt = time.Now()
		}
	})
	c.note(s, "healthd hold (%v)", err)
}

func (c *chaos) resume(s *target) {
	if !c.snapshot(s).held {
		return
	}
	owed := false
	c.change(func() {
		owed, s.restartAfterHold, s.heldAt = s.restartAfterHold, false, time.Time{}
		if owed {
			s.wanted = wantedUnclear // it is started before the command returns
		}
	})
	err := c.cli("resume", s.name)
	c.change(func() {
		s.held = err != nil
		if err == nil && owed {
			s.wanted = wantedRunning
		}
	})
	c.note(s, "healthd resume (%v)", err)
}

func (c *chaos) healthdRestart(s *target) {
	k := c.snapshot(s)
	if k.held || k.paused || k.wanted == wantedRemoved || s.kind.group {
		return
	}
	c.setWanted(s, wantedUnclear, time.Time{})
	err := c.cli("restart", s.name)
	if err == nil || k.wanted == wantedRunning && s.kind.policy == "" {
		c.setWanted(s, wantedRunning, time.Time{})
	}
	c.note(s, "healthd restart (%v)", err)
}

// crash kills the process without the engine.
func (c *chaos) crash(s *target) { c.signal(s, syscall.SIGKILL) }

// end makes the process exit with 0.
func (c *chaos) end(s *target) {
	if !s.kind.deaf {
		c.signal(s, syscall.SIGTERM)
	}
}

func (c *chaos) signal(s *target, sig syscall.Signal) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.snapshot(s)
	if !k.runs || k.paused {
		return
	}
	i, err := c.e.Client().ContainerInspect(ctx, k.id)
	if err != nil || i.State.Pid == 0 {
		return
	}
	begun := time.Now()
	err = syscall.Kill(i.State.Pid, sig)
	if err == nil {
		err = c.waitForDie(s, begun)
	}
	c.noteEnd(s, sig, err)
	c.note(s, "the process got %v (%v)", sig, err)
}

// noteEnd updates the model after an end that nobody requested from the engine.
func (c *chaos) noteEnd(s *target, sig syscall.Signal, err error) {
	const certainly = time.Second
	k := c.snapshot(s)
	stays := s.kind.policy == "Never" || s.kind.policy == "OnFailure" && sig == syscall.SIGTERM
	held := k.held && s.kind.engine == ""
	switch {
	case k.wanted == wantedUnclear, s.kind.rm:
	case (stays || held) && (err != nil || k.sick || k.stops > 0 || k.terms > 0):
		c.setWanted(s, wantedUnclear, time.Time{})
	case stays:
		c.setWanted(s, wantedEnded, k.diedAt)
	case held && !k.heldAt.IsZero() && k.diedAt.Sub(k.heldAt) > certainly: // waits: what is not certain is not judged
		c.setWanted(s, wantedEnded, k.diedAt)
		c.change(func() { s.restartAfterHold = true })
	}
}

// failLiveness makes the liveness probe fail.
func (c *chaos) failLiveness(s *target) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.snapshot(s)
	if !k.runs || k.paused || !s.kind.probed {
		return
	}
	c.change(func() { s.unhealthy = true })
	err := c.setUnhealthy(ctx, s, k.id)
	c.note(s, "made sick (%v)", err)
}

func (c *chaos) setUnhealthy(ctx context.Context, s *target, id string) error {
	if s.kind.exec {
		made, err := c.e.Client().ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"touch", "/dev/shm/sick"}})
		if err == nil {
			err = c.e.Client().ContainerExecStart(ctx, made.ID, container.ExecStartOptions{Detach: true})
		}
		return err
	}
	i, err := c.e.Client().ContainerInspect(ctx, id)
	if err != nil || i.NetworkSettings.Networks["bridge"] == nil {
		return err
	}
	url := "http://" + i.NetworkSettings.Networks["bridge"].IPAddress + ":8080/set?status=500"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	return err
}
