package chaos

import (
	"healthd/e2e/patience"

	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/containerd/containerdtest"
)

// TestChaosContainerd is TestChaos for containerd: operators do with containers what nerdctl
// and ctr do, while containerd, healthd and the connection between them fail.
//
// Where containerd cannot tell who ended a run, the model takes no side: see unclear. No
// operator acts while containerd is away or frozen, or the connection stalls.
//
//	go test -race ./e2e/chaos -run 'TestChaosContainerd$' -chaos=3m -chaos-seed=17
func TestChaosContainerd(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = 1 + rand.Uint64N(1_000_000)
	}
	t.Logf("-chaos=%v -chaos-seed=%d", *chaosFor, seed)
	c := newCtrChaos(t, seed)
	c.populate()
	before := c.lowestResources()
	c.runFaults(*chaosFor)
	c.endFaults()
	c.checkNoLeaks(before)
	c.checkNothingLeft()
	c.logSummary()
}

// ctrChaos is one containerd, the proxy in front of it, healthd and the model.
type ctrChaos struct {
	*chaosRun
	e       *containerdtest.Engine
	p       *grpcProxy
	daemons []int         // the PIDs of all healthds
	heard   chan struct{} // gets a value when the model has read all states

	// What follows is guarded by mu.
	subjects  []*ctrTarget
	byKey     map[string]*ctrTarget
	listening time.Time // since when healthd watches undisturbed; zero: it does not
	loss      *rand.Rand
	losing    bool // answers
	execs     map[string]*proxiedExec
	killed    map[int]bool    // which healthds had no time to clean up
	crossed   map[string]bool // which containers were removed while healthd started them
}

func newCtrChaos(t *testing.T, seed uint64) *ctrChaos {
	t.Helper()
	c := &ctrChaos{
		chaosRun: newChaosRun(t, seed, fmt.Sprintf("-chaos-seed=%d", seed)), heard: make(chan struct{}, 1),
		byKey: map[string]*ctrTarget{}, loss: rand.New(rand.NewPCG(seed, 0)), execs: map[string]*proxiedExec{}, killed: map[int]bool{}, crossed: map[string]bool{},
	}
	t.Cleanup(c.report)
	c.e = containerdtest.Start(t)
	c.p = startGRPCProxy(t, c.e)
	c.p.called, c.p.answered, c.p.loses = c.onCall, c.onAnswer, c.losesAnswer
	c.d = harness.NewDaemonWith(t, c.p.Runtime()+"namespaces = [\"default\", \"blog\"]\n", ctrSpecs)
	c.d.Runtime = "containerd"
	c.d.Rewrite(func(text string) string { return strings.Replace(text, `"debug"`, `"info"`, 1) })
	c.upHealthd()
	t.Cleanup(func() {
		close(c.over)
		c.watching.Wait()
	})
	c.watching.Go(c.watch)
	<-c.heard
	return c
}

// upHealthd starts healthd and waits until it watches.
func (c *ctrChaos) upHealthd() {
	c.t.Helper()
	c.startHealthd()
	c.daemons = append(c.daemons, c.d.Cmd.Process.Pid)
	c.listens()
}

// listens says that healthd watches again.
func (c *ctrChaos) listens() {
	c.change(func() { c.listening = time.Now() })
}

func (c *ctrChaos) isDeaf() {
	c.change(func() { c.listening = time.Time{} })
}

// populate makes the containers and waits until they are as they should be.
func (c *ctrChaos) populate() {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, k := range ctrKinds {
		for i := range k.members {
			s := &ctrTarget{kind: k, name: fmt.Sprintf("%s-%d", k.name, i+1), pids: map[uint32]time.Time{}}
			c.subjects, c.names = append(c.subjects, s), append(c.names, s.name)
			wg.Go(func() { c.exclusively(s, (*ctrChaos).recreate) })
		}
	}
	wg.Wait()
	c.watching.Go(c.checkContinuously)
	c.d.Eventually("see all up", c.matchesWanted)
}

// runFaults injects faults for that long.
func (c *ctrChaos) runFaults(during time.Duration) {
	c.t.Helper()
	end := time.Now().Add(during)
	for i := range chaosOperators {
		c.operating.Go(func() { c.runOperator(rand.New(rand.NewPCG(c.seed, uint64(i)+1))) })
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

// endFaults waits until everything is as the operators want.
func (c *ctrChaos) endFaults() {
	c.t.Helper()
	c.log("everybody", "calm down")
	for _, s := range c.subjects {
		c.exclusively(s, (*ctrChaos).unpause)
	}
	if err := c.await(patience.Limit, c.matchesWanted); err != nil {
		c.fail("everybody", "not all became as it was wished: %v", err)
	}
	time.Sleep(3 * time.Second) // in which nothing may change
	if err := c.await(patience.Limit, c.matchesWanted); err != nil {
		c.fail("everybody", "not all stayed as it was wished: %v", err)
	}
}

// logSummary logs how much was done and how much could not be checked.
func (c *ctrChaos) logSummary() {
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
