package chaos

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// injectFault harms healthd, the engine or the connection between them, and waits until that is
// over. Nothing is checked meanwhile.
func (c *chaos) injectFault(r *rand.Rand, mortal bool) {
	during := 200*time.Millisecond + time.Duration(r.Int64N(int64(2*time.Second)))
	all := []struct {
		name string
		do   func(time.Duration)
	}{
		{"kill -9 of healthd", c.killHealthd},
		{"kill -9 of healthd", c.killHealthd},
		{"kill -9 of the engine", func(d time.Duration) { c.restartEngine((*dockertest.Engine).Kill, d) }},
		{"SIGTERM to the engine", func(d time.Duration) { c.restartEngine((*dockertest.Engine).Stop, d) }},
		{"connections refused", c.proxyRefuses},
		{"answers of 500", c.proxyAnswersWrongly},
		{"a stalled stream", c.proxyStalls},
	}
	if !mortal {
		all = all[2:]
	}
	chosen := all[r.IntN(len(all))]
	c.log("everybody", "%s for %v", chosen.name, during)
	c.change(func() { c.activeFaults++; c.acts[chosen.name]++ })
	chosen.do(during)
	c.d.Eventually("hear the engine again", func() error { return c.d.RuntimeUp("1") })
	c.change(func() { c.activeFaults--; c.calm = time.Now() })
	c.log("everybody", "%s is over", chosen.name)
}

func (c *chaos) killHealthd(during time.Duration) {
	c.change(func() {
		for _, s := range c.subjects {
			if time.Since(s.heldAt) < time.Second {
				s.heldAt = time.Time{} // it may not be on the disk yet
			}
		}
	})
	c.d.Kill()
	time.Sleep(during)
	c.startHealthd()
}

// restartEngine ends the engine and starts it again. Its containers run on.
func (c *chaos) restartEngine(end func(*dockertest.Engine, testing.TB), during time.Duration) {
	defer c.pauseOperators()()
	end(c.e, c.t)
	time.Sleep(during)
	c.e.Up(c.t)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subjects {
		if s.kind.engine != "" && s.wanted == wantedStopped {
			s.wanted = wantedUnclear // an engine that starts forgets that it was stopped
		}
	}
	c.readEngineState()
}

// readEngineState reads from the engine what its stream may have lost when it ended.
func (c *chaos) readEngineState() {
	ctx, cancel := c.context()
	defer cancel()
	list, err := c.e.Client().ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return
	}
	for _, l := range list {
		if s := c.byID[l.ID]; s != nil {
			s.runs = l.State == "running" || l.State == "paused"
			s.paused = l.State == "paused"
		}
	}
}

func (c *chaos) proxyRefuses(during time.Duration) {
	c.p.Refuse()
	time.Sleep(during)
	c.p.Accept()
}

func (c *chaos) proxyAnswersWrongly(during time.Duration) {
	c.p.On("GET /containers|exec", harness.Fails)
	time.Sleep(during)
	c.p.ClearFaults()
	c.proxyLosesEvents()
}

func (c *chaos) proxyStalls(during time.Duration) {
	defer c.pauseOperators()()
	c.p.StallEvents()
	time.Sleep(during)
	c.p.ResumeEvents()
}

// proxyLosesEvents makes the proxy drop some events and answers.
func (c *chaos) proxyLosesEvents() {
	c.p.DropEvents(func(ev harness.ProxiedEvent) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		s := c.byID[ev.Actor.ID]
		if s == nil || c.loss.Float64() >= chaosLoss {
			return false
		}
		c.acts["event lost"]++
		return true
	})
	c.p.On("POST /containers/[0-9a-f]+/(stop|start)$", func(w http.ResponseWriter, r *http.Request) {
		var lost bool
		c.change(func() {
			if lost = c.loss.Float64() < chaosNoAnswer; lost {
				c.acts["answer lost"]++
			}
		})
		if lost {
			c.p.DropAnswer(w, r)
			return
		}
		c.p.PassOn(w, r)
	})
}

// clockSteps are by how much the engine's clock is set, at least; at most it is twice that.
var clockSteps = []time.Duration{50 * time.Millisecond, 3 * time.Second, 5 * time.Minute, 2 * time.Hour, harness.Year}

// setClocks sets the engine's clock now and then, also while other faults go on.
func (c *chaos) setClocks(r *rand.Rand) {
	for {
		select {
		case <-c.raging:
			return
		case <-time.After(3*time.Second + time.Duration(r.Int64N(int64(6*time.Second)))): // waits: the clock runs on
		}
		before := c.p.Clock.OffsetAt(time.Now())
		offset := before + chooseClockStep(r, before)
		c.p.Clock.Set(offset)
		c.log("everybody", "the engine's clock is set by %v and is now %v ahead", (offset - before).Round(time.Millisecond), offset.Round(time.Millisecond))
		c.change(func() { c.acts["engine's clock set"]++ })
	}
}

// chooseClockStep chooses by how much a clock is set that is that far ahead. Sometimes it is set right.
func chooseClockStep(r *rand.Rand, ahead time.Duration) time.Duration {
	const farthest = 5 * harness.Year
	step := clockSteps[r.IntN(len(clockSteps))]
	step += time.Duration(r.Int64N(int64(step)))
	if r.IntN(2) == 0 {
		step = -step
	}
	switch {
	case ahead != 0 && r.IntN(6) == 0:
		return -ahead
	case (ahead + step).Abs() > farthest:
		return -step
	}
	return step
}
