package chaos

import (
	"healthd/e2e/patience"

	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

var (
	chaosFor    = flag.Duration("chaos", 10*time.Second, "how long chaos reigns")
	chaosSeed   = flag.Uint64("chaos-seed", 1, "the number by which TestChaos chooses what goes wrong; 0: another each time")
	chaosClocks = flag.Bool("chaos-clocks", true, "whether the engine's clock is set during chaos")
)

const (
	chaosOperators = 3
	chaosLoss      = 0.02 // share of the events that are lost, see lossy
	chaosNoAnswer  = 0.05 // share of the answers to stop and start that are
)

// TestChaos runs 30 containers of all kinds under random operator actions, crashes, a lossy
// proxy, and restarts of healthd and the engine. With -chaos-clocks, the engine's clock is set,
// too, which changes nothing of what is expected. A model knows what the operators want.
// healthd is compared with it all the time, and once more when the faults have ended.
//
// What healthd cannot know is not tested: no operator stops anything while the event
// stream stalls or the engine ends. TestChaos is not parallel, because it loads the whole machine.
//
//	go test -race ./e2e/chaos -run 'TestChaos$' -chaos=3m -chaos-seed=17
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = 1 + rand.Uint64N(1_000_000)
	}
	t.Logf("-chaos=%v -chaos-seed=%d -chaos-clocks=%v", *chaosFor, seed, *chaosClocks)
	c := newChaos(t, seed)
	c.populate()
	before := c.lowestResources()
	c.runFaults(*chaosFor)
	c.endFaults()
	c.checkNoLeaks(before)
	c.logSummary()
}

// chaos is one engine, the proxy in front of it, healthd and the model.
type chaos struct {
	*chaosRun
	e *dockertest.Engine
	p *harness.Proxy

	// What follows is guarded by mu.
	subjects []*target
	byID     map[string]*target
	loss     *rand.Rand
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	again := fmt.Sprintf("-chaos-seed=%d -chaos-clocks=%v", seed, *chaosClocks)
	c := &chaos{chaosRun: newChaosRun(t, seed, again), byID: map[string]*target{}, loss: rand.New(rand.NewPCG(seed, 0))}
	// Registered before healthd's own, so that it runs after it: a failed test would
	// make that print the whole log, once for each start of healthd.
	t.Cleanup(c.report)
	c.e = dockertest.Start(t)
	c.p = harness.StartProxy(t, c.e)
	c.d = harness.NewBehindProxy(t, c.p, chaosSpecs)
	c.d.Rewrite(func(text string) string { return strings.Replace(text, `"debug"`, `"info"`, 1) })
	c.startHealthd()
	t.Cleanup(func() {
		close(c.over)
		c.watching.Wait()
	})
	c.p.Called = c.onRequest
	c.watching.Go(c.watch)
	return c
}

// populate makes the containers and waits until they are as they should be.
func (c *chaos) populate() {
	c.t.Helper()
	var wg sync.WaitGroup
	room := make(chan struct{}, 3)
	for _, k := range chaosKinds {
		for i := range k.members {
			s := &target{kind: k, name: fmt.Sprintf("%s-%d", k.name, i+1)}
			c.subjects, c.names = append(c.subjects, s), append(c.names, s.name)
			wg.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				c.recreate(s)
			})
		}
	}
	wg.Wait()
	c.watching.Go(c.checkContinuously)
	c.d.Eventually("see all up", c.matchesWanted)
}

// runFaults injects faults for that long.
func (c *chaos) runFaults(during time.Duration) {
	c.t.Helper()
	end := time.Now().Add(during)
	c.proxyLosesEvents()
	for i := range chaosOperators {
		c.operating.Go(func() { c.runOperator(rand.New(rand.NewPCG(c.seed, uint64(i)+1))) })
	}
	if *chaosClocks {
		c.operating.Go(func() { c.setClocks(rand.New(rand.NewPCG(c.seed, 2000))) })
	}
	// The last healthd must live long enough to leak something.
	r, mortal := rand.New(rand.NewPCG(c.seed, 1000)), time.Now().Add(during*2/3)
	for time.Now().Before(end) {
		c.pause(time.Second+time.Duration(r.Int64N(int64(3*time.Second))), end)
		if time.Now().Before(end) {
			c.injectFault(r, time.Now().Before(mortal))
		}
	}
	close(c.raging)
	c.operating.Wait()
}

// endFaults ends all faults and waits until everything is as the operators want.
func (c *chaos) endFaults() {
	c.t.Helper()
	c.log("everybody", "calm down")
	c.p.ClearFaults()
	c.change(c.readEngineState) // a pause whose call failed may have been made all the same
	for _, s := range c.subjects {
		c.exclusively(s, (*chaos).unpause)
		c.exclusively(s, (*chaos).resume)
	}
	c.d.Eventually("hear the engine", func() error { return c.d.RuntimeUp("1") })
	err := c.await(patience.Limit, c.matchesWanted)
	if err != nil && c.excuseUnstartable() {
		err = c.await(time.Second, c.matchesWanted)
	}
	if err != nil {
		c.fail("everybody", "not all became as it was wished: %v", err)
	}
	time.Sleep(3 * time.Second) // in which the judge sees nothing wrong
	if err := c.await(patience.Limit, c.matchesWanted); err != nil {
		c.fail("everybody", "not all stayed as it was wished: %v", err)
	}
}

// excuseUnstartable takes out of the judgement what the engine itself cannot start any more.
// Docker 20.10 that is killed in the middle of a start may leave a task behind in containerd,
// and then refuses every start of that container, an operator's, too. It returns false if an
// operator could start one that healthd had not.
func (c *chaos) excuseUnstartable() (all bool) {
	for _, s := range c.subjects {
		c.mu.Lock()
		id, down := s.id, s.wanted == wantedRunning && !s.runs && !s.kind.ends
		c.mu.Unlock()
		if !down {
			continue
		}
		err := c.e.Client().ContainerStart(c.t.Context(), id, container.StartOptions{})
		if err == nil || !strings.Contains(err.Error(), "id already in use") {
			return false
		}
		c.log(s.name, "the engine cannot start it any more: %v", err)
		c.mu.Lock()
		s.wanted = wantedUnclear
		c.mu.Unlock()
	}
	return true
}

// logSummary logs how much was done and how much could not be checked.
func (c *chaos) logSummary() {
	c.mu.Lock()
	defer c.mu.Unlock()
	vague := 0
	for _, s := range c.subjects {
		if s.wanted == wantedUnclear {
			vague++
		}
	}
	c.t.Logf("done: %v; %d healthds; of %d containers %d could not be judged in the end", c.acts, len(c.logs), len(c.subjects), vague)
}
