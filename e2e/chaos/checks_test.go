package chaos

import (
	"healthd/e2e/patience"

	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"healthd/e2e/harness"
)

const (
	// noticed is how long the news of an operator's stop may be on its way to healthd,
	// and a start of healthd's on its way to the engine. What comes within it is judged by neither rule.
	noticed = 2 * time.Second
	// tooLong is how much longer than its back-off a container may be down, or ready after its end, by looks: of the time
	// from one look to the next, which healthd has answered, no more than judgeEvery counts. So a busy machine, on which
	// all take longer, is no fault of healthd's.
	tooLong    = 8 * time.Second
	judgeEvery = 250 * time.Millisecond
)

// watch follows the engine's event stream without the proxy.
func (c *chaos) watch() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	defer cancel()
	go func() {
		<-c.over
		cancel()
	}()
	since := c.begun
	for ctx.Err() == nil {
		messages, errs := c.e.Client().Events(ctx, events.ListOptions{
			Since:   fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()),
			Filters: filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "kill"), filters.Arg("event", "die"), filters.Arg("event", "start")),
		})
		for lost := false; !lost; {
			select {
			case m := <-messages:
				if at := time.Unix(0, m.TimeNano); at.After(since) {
					since = at
					c.onEvent(m, at)
				}
			case <-errs:
				lost = true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *chaos) onEvent(m events.Message, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[m.Actor.ID]
	if s == nil {
		return
	}
	what := string(m.Action)
	switch m.Action {
	case events.ActionKill:
		what += " " + m.Actor.Attributes["signal"]
		switch m.Actor.Attributes["signal"] {
		case "15":
			s.terms, s.termAt = s.terms+1, at
		case "9":
			s.killedAt = at
		}
	case events.ActionDie:
		what += " " + m.Actor.Attributes["exitCode"]
		s.runs, s.paused, s.diedAt = false, false, at
		if s.kind.rm {
			s.wanted = wantedRemoved // for whatever reason: an engine that starts may remove it as well
		}
	case events.ActionStart:
		s.runs, s.terms, s.stops, s.taken, s.unhealthy, s.down = true, 0, 0, false, false, 0
	}
	c.lines = append(c.lines, chaosLine{at, s.name, "engine: " + what})
}

// onRequest is called for each request of healthd that reaches the engine.
func (c *chaos) onRequest(call string) {
	what, ok := strings.CutPrefix(call, "POST /containers/")
	id, what, ok2 := strings.Cut(what, "/")
	if !ok || !ok2 || what != "stop" && what != "start" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s == nil {
		return
	}
	c.lines = append(c.lines, chaosLine{time.Now(), s.name, "healthd asks for a " + what})
	c.acts["healthd "+what]++
	if what == "start" {
		c.onStartRequest(s)
		return
	}
	c.onStopRequest(s)
}

func (c *chaos) onStartRequest(s *target) {
	s.startCall = time.Now()
	if s.kind.rm {
		c.failLocked(s.name, "healthd starts one that is removed when it ends")
	}
	if s.wanted != wantedStopped && s.wanted != wantedEnded {
		return
	}
	if age := time.Since(s.since); age > noticed {
		c.failLocked(s.name, "healthd starts it %v after it was to stay down (%v, owed %v)", age, s.wanted, s.restartAfterHold)
	}
	s.wanted = wantedUnclear // once is enough
}

func (c *chaos) onStopRequest(s *target) {
	s.stops++
	if s.kind.rm {
		c.failLocked(s.name, "healthd stops one that is removed when it ends")
	}
	if !s.kind.group {
		return
	}
	s.taken = true
	var down []string
	for _, other := range c.subjects {
		if other.kind == s.kind && other.taken {
			down = append(down, other.name)
		}
	}
	if len(down) > 1 {
		c.failLocked(s.name, "healthd takes it down while it has %v down, and may have 1", down)
	}
}

// checkContinuously compares, all the time, containers and healthd's statuses with the model.
func (c *chaos) checkContinuously() {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		asked := time.Now()
		said, err := c.healthdStatuses()
		if err != nil {
			last = time.Now()
			continue
		}
		runs, err := c.runningContainers()
		now := time.Now()
		if err == nil {
			c.compare(said, runs, asked, now.Sub(last))
		}
		last = now
	}
}

// runningContainers returns, by ID, whether the engine says that a container runs.
func (c *chaos) runningContainers() (map[string]bool, error) {
	ctx, cancel := c.context()
	defer cancel()
	list, err := c.e.Client().ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	runs := map[string]bool{}
	for _, l := range list {
		runs[l.ID] = l.State == "running" || l.State == "paused"
	}
	return runs, nil
}

// compare checks the statuses that were requested at the time asked, and then which
// containers ran. dt is the time since the last check.
func (c *chaos) compare(said map[string]harness.Status, runs map[string]bool, asked time.Time, dt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.activeFaults > 0 {
		return
	}
	for _, s := range c.subjects {
		c.compareReady(s, said[s.name], runs[s.id], dt)
		switch {
		case s.busy || s.wanted != wantedRunning || s.held || runs[s.id]:
			s.down = 0
			continue
		case asked.Sub(s.startCall) < patience.Limit: // a busy engine takes its time for a start
			continue
		}
		before, bound := s.down, chaosBackoff+tooLong
		s.down += min(dt, judgeEvery)
		if before <= bound && s.down > bound {
			c.failLocked(s.name, "it should run and is down for %v; healthd says %+v", s.down, said[s.name])
		}
	}
}

func (c *chaos) compareReady(s *target, said harness.Status, runs bool, dt time.Duration) {
	if !said.Ready || runs || s.runs || s.busy || s.id == "" {
		s.stale = 0
		return
	}
	if s.stale += min(dt, judgeEvery); s.stale > tooLong {
		c.failLocked(s.name, "healthd calls it ready %v after its end", s.stale)
	}
}

// matchesWanted returns nil when everything is as the operators want, and healthd reports it so.
func (c *chaos) matchesWanted() error {
	said, err := c.healthdStatuses()
	if err != nil {
		return err
	}
	runs, err := c.runningContainers()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subjects {
		v, run := said[s.name], runs[s.id]
		switch {
		case s.kind.ends && s.wanted == wantedRunning: // it comes and goes
		case s.wanted == wantedRunning && (!run || v.State.Running == nil && v.State.Waiting == nil || !v.Ready):
			err = errors.Join(err, fmt.Errorf("%s should be up and ready: %+v", s.name, v))
		case (s.wanted == wantedStopped || s.wanted == wantedEnded) && (run || v.Ready || v.State.Running != nil):
			err = errors.Join(err, fmt.Errorf("%s should be down (%v since %v): %+v", s.name, s.wanted, s.since, v))
		}
	}
	return err
}
