package e2e

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// disaster harms healthd, the engine or what is between them, and waits until it is
// over. No one is judged meanwhile.
func (c *chaos) disaster(r *rand.Rand, mortal bool) {
	during := 200*time.Millisecond + time.Duration(r.Int64N(int64(2*time.Second)))
	all := []struct {
		name string
		do   func(time.Duration)
	}{
		{"kill -9 of healthd", c.healthdDies},
		{"kill -9 of healthd", c.healthdDies},
		{"kill -9 of the engine", func(d time.Duration) { c.engineEnds((*dockertest.Engine).Kill, d) }},
		{"SIGTERM to the engine", func(d time.Duration) { c.engineEnds((*dockertest.Engine).Stop, d) }},
		{"connections refused", c.refused},
		{"answers of 500", c.sickened},
		{"a stalled stream", c.stalled},
	}
	if !mortal {
		all = all[2:]
	}
	chosen := all[r.IntN(len(all))]
	c.say("everybody", "%s for %v", chosen.name, during)
	c.change(func() { c.troubled++; c.acts[chosen.name]++ })
	chosen.do(during)
	c.d.eventually(60*time.Second, "hear the engine again", func() error { return c.d.runtimeUp("1") })
	c.change(func() { c.troubled--; c.calm = time.Now() })
	c.say("everybody", "%s is over", chosen.name)
}

func (c *chaos) healthdDies(during time.Duration) {
	c.change(func() {
		for _, s := range c.subjects {
			if time.Since(s.heldAt) < time.Second {
				s.heldAt = time.Time{} // it may not be on the disk yet
			}
		}
	})
	c.d.kill()
	time.Sleep(during)
	c.startHealthd()
}

// alone keeps the operators away until what they did before has been heard.
func (c *chaos) alone() (done func()) {
	c.engine.Lock()
	time.Sleep(300 * time.Millisecond)
	return c.engine.Unlock
}

// engineEnds ends the engine and starts it again. What it runs lives on.
func (c *chaos) engineEnds(end func(*dockertest.Engine, testing.TB), during time.Duration) {
	defer c.alone()()
	end(c.e, c.t)
	time.Sleep(during)
	c.e.Up(c.t)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subjects {
		if s.kind.engine != "" && s.wish == wishDown {
			s.wish = wishVague // an engine that starts forgets that it was stopped
		}
	}
	c.look()
}

// look learns from the engine what its stream may not have told as it went down.
func (c *chaos) look() {
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

func (c *chaos) refused(during time.Duration) {
	c.p.refuse()
	time.Sleep(during)
	c.p.accept()
}

func (c *chaos) sickened(during time.Duration) {
	c.p.on("GET /containers|exec", fails)
	time.Sleep(during)
	c.p.pass()
	c.lossy()
}

func (c *chaos) stalled(during time.Duration) {
	defer c.alone()()
	c.p.stall()
	time.Sleep(during)
	c.p.flow()
}

// lossy makes the proxy lose events and answers now and then.
func (c *chaos) lossy() {
	c.p.drop(func(ev proxiedEvent) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		s := c.byID[ev.Actor.ID]
		if s == nil || c.loss.Float64() >= chaosLoss {
			return false
		}
		s.lostAt = time.Now()
		c.acts["event lost"]++
		return true
	})
	c.p.on("POST /containers/[0-9a-f]+/(stop|start)$", func(w http.ResponseWriter, r *http.Request) {
		var lost bool
		c.change(func() {
			if lost = c.loss.Float64() < chaosNoAnswer; lost {
				c.acts["answer lost"]++
			}
		})
		if lost {
			c.p.losesAnswer(w, r)
			return
		}
		c.p.passOn(w, r)
	})
}
