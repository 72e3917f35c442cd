package chaos

import (
	"healthd/e2e/patience"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/harness"
)

// chaosRun is what chaos has on every engine: healthd, the order in which operators and
// faults act, and a log of what was done and seen.
type chaosRun struct {
	t     *testing.T
	seed  uint64
	again string // the flags that repeat it
	d     *harness.Daemon
	logs  []*harness.Buffer // of each healthd

	operating sync.WaitGroup
	raging    chan struct{} // closed when it is over
	watching  sync.WaitGroup
	over      chan struct{} // closed at the end
	// engine is held shared by operators, and alone by who harms the engine.
	engine sync.RWMutex

	mu           sync.Mutex
	begun        time.Time
	names        []string  // of the containers
	activeFaults int       // faults under way, during which nothing is checked
	calm         time.Time // when the last one ended
	lines        []chaosLine
	wrongs       []chaosLine
	acts         map[string]int
}

func newChaosRun(t *testing.T, seed uint64, again string) *chaosRun {
	return &chaosRun{
		t: t, seed: seed, again: again, raging: make(chan struct{}), over: make(chan struct{}),
		begun: time.Now(), calm: time.Now(), acts: map[string]int{},
	}
}

// chaosLine is a line of the log: something that was done or seen.
type chaosLine struct {
	at   time.Time
	who  string
	what string
}

func (l chaosLine) String() string {
	return fmt.Sprintf("%s %s: %s", l.at.Format("15:04:05.000"), l.who, l.what)
}

// resources are what a leak in healthd increases.
type resources struct{ goroutines, descriptors int }

func (c *chaosRun) startHealthd() {
	c.t.Helper()
	c.d.Log = &harness.Buffer{}
	c.logs = append(c.logs, c.d.Log)
	c.d.Start()
	c.d.Eventually("be synced", c.d.Synced)
}

// pause waits for d, but not beyond end.
func (c *chaosRun) pause(d time.Duration, end time.Time) {
	time.Sleep(min(d, time.Until(end)))
}

// log logs something that was done or seen.
func (c *chaosRun) log(who, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, chaosLine{time.Now(), who, fmt.Sprintf(format, args...)})
}

func (c *chaosRun) fail(who, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(who, format, args...)
}

func (c *chaosRun) failLocked(who, format string, args ...any) {
	l := chaosLine{time.Now(), who, "WRONG: " + fmt.Sprintf(format, args...)}
	c.lines, c.wrongs = append(c.lines, l), append(c.wrongs, l)
}

// report prints each failure with what was done to its container, or to each that it
// names, and what healthd reported about it.
func (c *chaosRun) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range c.logs {
		if strings.Contains(log.String(), "DATA RACE") {
			c.t.Errorf("a data race:\n%s", log)
		}
	}
	reported := map[string]bool{}
	for _, w := range c.wrongs {
		c.t.Errorf("%s: %v", c.again, w)
		if reported[w.who] {
			continue
		}
		reported[w.who] = true
		c.reportOn(w.who)
		for _, name := range c.names {
			if strings.Contains(w.what, name+" should be ") && !reported[name] {
				reported[name] = true
				c.reportOn(name)
			}
		}
	}
}

func (c *chaosRun) reportOn(who string) {
	c.t.Logf("what was done to %s:\n%s", who, c.linesOf(who))
	c.t.Logf("what healthd said of %s:\n%s", who, c.logOf(who))
}

func (c *chaosRun) linesOf(who string) string {
	var b strings.Builder
	for _, l := range c.lines {
		if l.who == who || l.who == "everybody" {
			fmt.Fprintln(&b, l)
		}
	}
	return b.String()
}

func (c *chaosRun) logOf(who string) string {
	const most = 200
	var found []string
	for _, log := range c.logs {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, who) || strings.Contains(line, "Runtime") || strings.Contains(line, "healthd runs") {
				found = append(found, line)
			}
		}
	}
	return strings.Join(found[max(0, len(found)-most):], "")
}

// pauseOperators stops the operators until healthd has received what they did before.
func (c *chaosRun) pauseOperators() (done func()) {
	c.engine.Lock()
	time.Sleep(300 * time.Millisecond)
	return c.engine.Unlock
}

func (c *chaosRun) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

func (c *chaosRun) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.t.Context()), patience.Limit)
}

func (c *chaosRun) await(within time.Duration, try func() error) error {
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

// cli runs a client command; the daemon may be down.
func (c *chaosRun) cli(args ...string) error {
	ctx, cancel := c.context()
	defer cancel()
	out, err := exec.CommandContext(ctx, c.d.Path, append(args, "--config", c.d.Config)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// healthdStatuses returns healthd's status of each container.
func (c *chaosRun) healthdStatuses() (map[string]harness.Status, error) {
	ctx, cancel := c.context()
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.d.URL+"/v1/containers", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var all []harness.Status
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return nil, err
	}
	said := map[string]harness.Status{}
	for _, s := range all {
		said[s.Name] = s
	}
	return said, nil
}

// lowestResources returns the lowest values of some idle seconds. In a long test, idle connections
// are closed by then.
func (c *chaosRun) lowestResources() resources {
	c.t.Helper()
	lowest, err := c.readResources()
	for end := time.Now().Add(min(*chaosFor/10, 12*time.Second)); time.Now().Before(end) && err == nil; time.Sleep(100 * time.Millisecond) {
		var f resources
		f, err = c.readResources()
		lowest = resources{min(lowest.goroutines, f.goroutines), min(lowest.descriptors, f.descriptors)}
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return lowest
}

func (c *chaosRun) readResources() (f resources, err error) {
	_, text, err := c.d.Get("/metrics")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch n, _ := strconv.ParseFloat(value, 64); name {
		case "go_goroutines":
			f.goroutines = int(n)
		case "process_open_fds":
			f.descriptors = int(n)
		}
	}
	if err == nil && (f.goroutines == 0 || f.descriptors == 0) {
		err = errors.New("/metrics does not tell goroutines and descriptors")
	}
	return f, err
}

// checkNoLeaks checks that healthd has no more goroutines and descriptors than before.
// It closes idle connections after 10 s.
func (c *chaosRun) checkNoLeaks(before resources) {
	c.t.Helper()
	const slack = 16 // connections to the engine come and go, with two goroutines each
	var now resources
	c.d.Eventually("be as small as before", func() (err error) {
		if now, err = c.readResources(); err == nil && (now.goroutines > before.goroutines+slack || now.descriptors > before.descriptors+slack) {
			err = fmt.Errorf("%+v, before the chaos %+v", now, before)
		}
		return err
	})
	c.t.Logf("before %+v, afterwards %+v", before, now)
}
