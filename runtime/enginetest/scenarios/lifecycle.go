package scenarios

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

func stopAndStart(t *testing.T, p Private) {
	e := connect(t, p)
	hours := 36_000 // in seconds; the grace counts, not the container's own
	for _, tt := range []struct {
		name  string
		c     Container
		grace time.Duration
		code  int
	}{
		{"signal", Container{Cmd: endsOn("TERM", 5)}, patience.Limit, 5},
		{"its own signal", Container{StopSignal: "SIGUSR1", Cmd: endsOn("USR1", 6)}, patience.Limit, 6},
		{"deaf", Container{StopTimeout: &hours, Cmd: handles("trap '' TERM")}, 300 * time.Millisecond, 137},
		{"no grace", Container{StopTimeout: &hours, Cmd: handles("trap '' TERM")}, 0, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := p.Run(t, tt.c)
			waitForHandlers(t, id)
			before := inspect(t, e, id)
			began := time.Now()
			for range 2 {
				stop(t, e, id, tt.grace)
			}
			if took := time.Since(began); took >= patience.Limit {
				t.Errorf("took %v, as long as the grace", took)
			}
			ended := inspect(t, e, id)
			if ended.State != runtime.Exited || ended.ExitCode != tt.code || ended.Run() != before.Run() || ended.Pid != 0 {
				t.Errorf("got %+v, want exit code %d of the same run", ended, tt.code)
			}
			began = time.Now()
			start(t, e, id)
			t.Logf("started in %v", time.Since(began))
			start(t, e, id)
			after := inspect(t, e, id)
			if after.State != runtime.Running || after.Run() == before.Run() || !after.StartedAt.After(ended.FinishedAt) || after.FinishedAt.After(ended.FinishedAt) {
				t.Errorf("got %+v, want a new run", after)
			}
		})
	}
}

func pausedIsStopped(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf})
	p.Pause(t, id)
	stop(t, e, id, 100*time.Millisecond)
	if c := inspect(t, e, id); c.State != runtime.Exited || c.ExitCode != 137 {
		t.Errorf("got %+v", c)
	}
}

func startByManyAtOnce(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf})
	signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	waitForEnd(t, e, id)
	errs := make(chan error)
	for range 8 {
		other := connect(t, p)
		go func() { errs <- other.Start(t.Context(), id) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if c := inspect(t, e, id); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
}

func startThatFails(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Create(t, Container{Cmd: []string{"/nosuch"}})
	err := e.Start(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	t.Log(err)
	if c := inspect(t, e, id); c.State != runtime.Created {
		t.Errorf("got %+v", c)
	}
}

// An operator removes a container with force. That looks like a crash at first, and healthd is
// about to start it again.
func startOfWhatIsRemoved(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	for range 5 {
		id := p.Run(t, watched(t, Container{Name: "removed", Cmd: deaf}))
		n = l.WaitFor(t, n, "observed removed running")
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			p.Remove(t, id)
		}()
		n = l.WaitFor(t, n, "died removed 137")
		err := e.Start(t.Context(), id)
		<-removed
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		t.Log(err)
		p.Remove(t, id)
		n = l.WaitFor(t, n, "removed removed")
	}
}

// The engine's own restart policy starts it, too.
func startBesideThePolicy(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "twice", RestartPolicy: "always", Cmd: deaf}))
	n = l.WaitFor(t, n, "observed twice running")
	signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	n = l.WaitFor(t, n, "died twice 137", "observed twice running")
	for range 3 {
		stop(t, e, id, 0)
		start(t, e, id)
	}
	l.WaitFor(t, n, "observed twice running")
}

func startJoinsTheOwnersNetwork(t *testing.T, p Private) {
	e := connect(t, p)
	owner := p.Run(t, Container{Cmd: deaf})
	id := p.Run(t, Container{Network: "container:" + owner, Cmd: deaf})
	for _, c := range []string{id, owner} {
		stop(t, e, c, 0)
	}
	if err := e.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "run") {
		t.Errorf("started without the owner of its network: %v", err)
	}
	for _, c := range []string{owner, id} {
		start(t, e, c)
	}
	a, b := inspect(t, e, owner), inspect(t, e, id)
	if got, want := netns(t, b.Pid), netns(t, a.Pid); got != want || !b.NetworkOwnerStartedAt.Equal(a.StartedAt) {
		t.Errorf("got %s, want %s; %+v", got, want, b)
	}
	p.Remove(t, owner)
	if c := inspect(t, e, id); !c.NetworkOwnerGone {
		t.Errorf("got %+v", c)
	}
}

func netns(t *testing.T, pid int) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// signalledTwice returns a container that ended after an operator's HUP and KILL, while another
// one got a KILL, too.
func signalledTwice(t *testing.T, p Private, e Engine) *runtime.Container {
	t.Helper()
	l := Watch(t, e)
	l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "signalled", Cmd: handles("trap : HUP")}))
	other := p.Run(t, Container{Cmd: deaf})
	waitForHandlers(t, id)
	p.OperatorStops(t, id, syscall.SIGHUP)
	p.OperatorStops(t, other, syscall.SIGKILL)
	p.OperatorStops(t, id, syscall.SIGKILL)
	return waitForEnd(t, e, id)
}

// killsOf returns the numbers of the signals that the engine knows of.
func killsOf(t *testing.T, e Engine, c *runtime.Container) []int {
	t.Helper()
	began := time.Now()
	kills, err := e.KillEvents(t.Context(), c.Run())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the engine answered after %v", time.Since(began))
	var all []int
	for _, ev := range kills {
		if ev.ID != c.ID || ev.Action != runtime.ActionKill || ev.Time.Before(c.StartedAt) {
			t.Errorf("got %+v", ev)
		}
		all = append(all, ev.Signal)
	}
	return all
}

func signalsAreOfARun(t *testing.T, p Private) {
	e := connect(t, p)
	first := signalledTwice(t, p, e)
	if got := killsOf(t, e, first); !slices.ContainsFunc(got, first.Stops) {
		t.Errorf("the operator's stop is not known: got %v", got)
	}
	start(t, e, first.ID)
	if got := killsOf(t, e, inspect(t, e, first.ID)); len(got) > 0 {
		t.Errorf("the next run: got %v", got)
	}
}

func signalsByTheirNumbers(t *testing.T, p Private) {
	e := connect(t, p)
	first := signalledTwice(t, p, e)
	if got := killsOf(t, e, first); !slices.Equal(got, []int{1, 9}) {
		t.Errorf("got %v", got)
	}
	start(t, e, first.ID)
	if got := killsOf(t, e, first); !slices.Equal(got, []int{1, 9}) {
		t.Errorf("after the next start: got %v", got)
	}
}
