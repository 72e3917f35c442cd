package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
)

// proxiedExec is a command that healthd made, and did not delete.
type proxiedExec struct {
	of     *ctrTarget
	id     string
	pid    uint32 // of the run
	daemon int    // the PID of the healthd
}

// checkContinuously compares, all the time, containers and healthd's statuses with the model.
func (c *ctrChaos) checkContinuously() {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		asked := time.Now()
		if said, err := c.healthdStatuses(); err == nil {
			c.compare(said, asked, asked.Sub(last))
		}
		last = asked
	}
}

func (c *ctrChaos) compare(said map[string]harness.Status, asked time.Time, dt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.activeFaults > 0 {
		return
	}
	for _, s := range c.subjects {
		if !said[s.name].Ready || s.present.runs || s.busy {
			s.stale = 0
		} else if s.stale += min(dt, judgeEvery); s.stale > tooLong {
			c.failLocked(s.name, "healthd calls it ready %v after its end", s.stale)
		}
		switch {
		case s.busy || s.wanted != wantedRunning || s.kind.foreign || s.present.runs:
			s.down = 0
			continue
		case asked.Sub(s.startCall) < patience.Limit:
			continue
		}
		before, bound := s.down, chaosBackoff+tooLong
		if s.down += min(dt, judgeEvery); before <= bound && s.down > bound {
			c.failLocked(s.name, "it should run and is down for %v; healthd says %+v", s.down, said[s.name])
		}
	}
}

// matchesWanted returns nil when everything is as the operators want, and healthd reports it so.
func (c *ctrChaos) matchesWanted() error {
	said, err := c.healthdStatuses()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subjects {
		v, known := said[s.name]
		err = errors.Join(err, s.matches(v, known))
	}
	return err
}

func (s *ctrTarget) matches(v harness.Status, known bool) error {
	run := s.present.runs
	switch {
	case known == s.kind.foreign:
		return fmt.Errorf("%s should be known to healthd: %v, and is not so", s.name, !s.kind.foreign)
	case s.wanted == wantedRunning && s.kind.foreign:
		if !run {
			return fmt.Errorf("%s should be up", s.name)
		}
	case s.kind.ends && s.wanted == wantedRunning: // it comes and goes
	case s.wanted == wantedRunning && (!run || !v.Ready || s.present.sick):
		return fmt.Errorf("%s should be up and ready: %+v, %+v", s.name, s.present, v)
	case (s.wanted == wantedStopped || s.wanted == wantedEnded) && (run || v.Ready || v.State.Running != nil):
		return fmt.Errorf("%s should be down (%v since %v): %+v, %+v", s.name, s.wanted, s.since, s.present, v)
	}
	return nil
}

// checkNothingLeft ends healthd, and then looks for what it leaves behind: commands in
// containers, FIFOs, and tasks without a container.
func (c *ctrChaos) checkNothingLeft() {
	c.t.Helper()
	c.engine.Lock()
	defer c.engine.Unlock()
	if err := c.d.Stop(); err != nil {
		c.fail("everybody", "healthd did not end well: %v", err)
	}
	for _, pid := range c.daemons {
		if found, _ := filepath.Glob(fmt.Sprintf("/run/containerd/fifo/healthd-%d-*", pid)); len(found) > 0 {
			c.fail("everybody", "healthd leaves %v", found)
		}
	}
	ctx, cancel := c.context()
	defer cancel()
	for _, namespace := range []string{"default", "blog"} {
		c.checkTasks(namespaces.WithNamespace(ctx, namespace), namespace)
	}
	c.checkExecs(ctx)
}

func (c *ctrChaos) checkTasks(ctx context.Context, namespace string) {
	list, err := c.e.Client().TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range list.Tasks {
		c.mu.Lock()
		s, crossed := c.byKey[namespace+"/"+p.ID], c.crossed[namespace+"/"+p.ID]
		c.mu.Unlock()
		switch {
		case s == nil && crossed: // containerd makes a task even if its container is removed meanwhile
			c.change(func() { c.acts["task made while its container was removed"]++ })
		case s == nil:
			c.fail("everybody", "a task is left without its container: %v", p)
		}
	}
}

// checkExecs looks for commands in tasks. One of a killed healthd may be there until its run
// ends.
func (c *ctrChaos) checkExecs(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.execs {
		if x.pid != x.of.present.pid || !x.of.present.runs {
			continue
		}
		p, err := c.process(ctx, x.of.kind.space(), x.of.id, x.id)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			c.failLocked(x.of.name, "nobody knows what became of command %s: %v", x.id, err)
		case c.killed[x.daemon]:
			c.acts["command of a killed healthd left"]++
		default:
			c.failLocked(x.of.name, "healthd leaves a command: %v", p)
		}
		if p != nil && p.Pid != 0 && alive(p.Pid) {
			c.failLocked(x.of.name, "a command of healthd's still runs: %v", p)
		}
	}
}

// alive says that a process of a command of healthd's is there.
func alive(pid uint32) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(strings.Split(string(env), "\x00"), func(v string) bool { return strings.HasPrefix(v, "HEALTHD_EXEC=") })
}
