package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
)

// act is something that an operator does to a container, or that happens to it.
type act struct {
	name  string
	share int
	do    func(*chaos, *subject)
}

var chaosActs = []act{
	{"stop", 4, (*chaos).stop}, {"kill", 2, (*chaos).kill}, {"start", 6, (*chaos).start}, {"restart", 2, (*chaos).restart},
	{"pause", 1, (*chaos).pauseIt}, {"unpause", 3, (*chaos).unpause}, {"recreate", 2, (*chaos).recreate},
	{"hold", 1, (*chaos).hold}, {"resume", 3, (*chaos).resume}, {"healthd restart", 2, (*chaos).healthdRestart},
	{"crash", 4, (*chaos).crash}, {"end", 3, (*chaos).end}, {"sicken", 5, (*chaos).sicken},
}

// operate does one thing after the other until it is over.
func (c *chaos) operate(r *rand.Rand) {
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
			c.do(s, a.do)
		}
	}
}

// do lets nobody else act on the container meanwhile, and nobody harm the engine.
func (c *chaos) do(s *subject, act func(*chaos, *subject)) {
	c.engine.RLock()
	defer c.engine.RUnlock()
	s.turn.Lock()
	defer s.turn.Unlock()
	c.change(func() { s.busy = true })
	act(c, s)
	c.change(func() { s.busy, s.down = false, 0 })
}

func (c *chaos) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

func (c *chaos) note(s *subject, format string, args ...any) {
	c.say(s.name, format+" → %v", append(args, c.now(s).wish)...)
}

// known is what can be read of a subject at one moment.
type known struct {
	id                string
	wish              wish
	runs, paused      bool
	held, sick        bool
	stops, terms      int
	diedAt            time.Time
	termAt, killedAt  time.Time
	startCall, heldAt time.Time
}

func (c *chaos) now(s *subject) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	return known{s.id, s.wish, s.runs, s.paused, s.held, s.sick, s.stops, s.terms, s.diedAt, s.termAt, s.killedAt, s.startCall, s.heldAt}
}

func (c *chaos) wishes(s *subject, w wish, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wish, s.since, s.owed = w, since, false
	if w == wishDown || w == wishOver {
		s.taken = false
	}
	c.acts["wish "+w.String()]++
}

func (c *chaos) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.t.Context()), 30*time.Second)
}

func (c *chaos) await(within time.Duration, try func() error) error {
	end, tick := time.After(within), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-end:
			return err
		case <-tick.C:
		}
	}
}

// cli runs a command of healthd, which may be away.
func (c *chaos) cli(args ...string) error {
	ctx, cancel := c.context()
	defer cancel()
	out, err := exec.CommandContext(ctx, c.d.path, append(args, "--config", c.d.config)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (c *chaos) hold(s *subject) {
	k := c.now(s)
	if k.held || k.wish == wishGone {
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

func (c *chaos) resume(s *subject) {
	if !c.now(s).held {
		return
	}
	owed := false
	c.change(func() {
		owed, s.owed, s.heldAt = s.owed, false, time.Time{}
		if owed {
			s.wish = wishVague // it is started before the command returns
		}
	})
	err := c.cli("resume", s.name)
	c.change(func() {
		s.held = err != nil
		if err == nil && owed {
			s.wish = wishUp
		}
	})
	c.note(s, "healthd resume (%v)", err)
}

func (c *chaos) healthdRestart(s *subject) {
	k := c.now(s)
	if k.held || k.paused || k.wish == wishGone || s.kind.group {
		return
	}
	c.wishes(s, wishVague, time.Time{})
	err := c.cli("restart", s.name)
	if err == nil || k.wish == wishUp && s.kind.policy == "" {
		c.wishes(s, wishUp, time.Time{})
	}
	c.note(s, "healthd restart (%v)", err)
}

// crash kills the process, past the engine.
func (c *chaos) crash(s *subject) { c.signal(s, syscall.SIGKILL) }

// end lets the process end well.
func (c *chaos) end(s *subject) {
	if !s.kind.deaf {
		c.signal(s, syscall.SIGTERM)
	}
}

func (c *chaos) signal(s *subject, sig syscall.Signal) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.now(s)
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
		err = c.awaitDeath(s, begun)
	}
	c.hasEnded(s, sig, err)
	c.note(s, "the process got %v (%v)", sig, err)
}

// hasEnded says what follows an end that nobody asked the engine for.
func (c *chaos) hasEnded(s *subject, sig syscall.Signal, err error) {
	const certainly = time.Second
	k := c.now(s)
	stays := s.kind.policy == "Never" || s.kind.policy == "OnFailure" && sig == syscall.SIGTERM
	held := k.held && s.kind.engine == ""
	switch {
	case k.wish == wishVague, s.kind.rm:
	case (stays || held) && (err != nil || k.sick || k.stops > 0 || k.terms > 0):
		c.wishes(s, wishVague, time.Time{})
	case stays:
		c.wishes(s, wishOver, k.diedAt)
	case held && !k.heldAt.IsZero() && k.diedAt.Sub(k.heldAt) > certainly:
		c.wishes(s, wishOver, k.diedAt)
		c.change(func() { s.owed = true })
	}
}

// sicken makes liveness fail.
func (c *chaos) sicken(s *subject) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.now(s)
	if !k.runs || k.paused || !s.kind.probed {
		return
	}
	c.change(func() { s.sick = true })
	err := c.makeSick(ctx, s, k.id)
	c.note(s, "made sick (%v)", err)
}

func (c *chaos) makeSick(ctx context.Context, s *subject, id string) error {
	if s.kind.exec {
		made, err := c.e.Client().ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"touch", "/sick"}})
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
