package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

// An engine dies, and ends and comes back while a container of it dies.
func containersOutliveTheEngine(t *testing.T, p Private) {
	e := connect(t, p)
	for _, name := range []string{"stays", "also"} {
		p.Run(t, watched(t, Container{Name: name, Cmd: deaf}))
	}
	dies := inspect(t, e, p.Run(t, watched(t, Container{Name: "dies", Cmd: deaf})))
	back := map[string]string{
		docker:     "connected restart", // it has forgotten its events
		containerd: "connected complete",
		podman:     "connected", // complete from 5 on
	}[p.Name()]
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	accepts(t, e, "runs", true)
	patience.Until(t, "a Watcher tells "+back, func() error { // a busy engine may not answer in time what it remembers
		heard := p.Run(t, watched(t, Container{Name: "heard", Cmd: deaf})) // without an event it cannot tell
		n = l.WaitFor(t, n, "observed heard running")
		p.Remove(t, heard)
		n = l.WaitFor(t, n, "removed heard")
		p.Kill(t)
		lost := l.WaitFor(t, n, "lost")
		p.Up(t)
		n = l.WaitFor(t, lost, "connected", "synced reconnect")
		if lines := l.lines(lost); !slices.ContainsFunc(lines, func(line string) bool { return is(line, back) }) {
			return fmt.Errorf("got %q", lines)
		}
		return nil
	})
	p.Stop(t)
	n = l.WaitFor(t, n, "lost")
	accepts(t, e, "has ended", false)
	signalFromHost(t, dies, syscall.SIGKILL)
	p.Up(t)
	accepts(t, e, "is back", true)
	// From 1.7 on containerd deletes the task at its start, and the exit code is lost with it.
	l.WaitFor(t, n, "connected", "observed dies exited", "synced reconnect")
	if c := inspect(t, e, dies.ID); c.State != runtime.Exited || c.Run() != dies.Run() {
		t.Errorf("got %+v, want the run of %v", c, dies.StartedAt)
	}
	for _, name := range []string{"stays", "also"} {
		l.MustNotContain(t, "removed "+name, "observed "+name+" exited")
	}
}

func frozenEngine(t *testing.T, p Private) {
	e := connect(t, p)
	if err := e.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Freeze(t)
	defer p.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if _, err := e.Subscribe(ctx, time.Now()); err == nil {
		t.Error("subscribed to a frozen engine")
	}
}

func historyOfAFrozenEngine(t *testing.T, p Private) {
	e := connect(t, p)
	if m, err := e.EventHistory(t.Context(), time.Now()); err != nil || m.HasEvent {
		t.Errorf("got %+v, %v", m, err)
	}
	p.Freeze(t)
	defer p.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if m, err := e.EventHistory(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v, want the deadline", m, err)
	}
}

// accepts checks whether the engine takes a new connection.
func accepts(t *testing.T, e Engine, what string, want bool) {
	t.Helper()
	if want { // a busy one may take longer than Accept waits
		patience.Until(t, "an engine that "+what+" accepts", func() error { return e.Accept(t.Context()) })
	} else if e.Accept(t.Context()) == nil {
		t.Errorf("an engine that %s accepts", what)
	}
}

// An engine that shuts down refuses new connections before it sends its first signal, and still
// answers on the old ones.
func refusesBeforeItKills(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	grace := int(patience.Limit / time.Second) // the test ends it before
	slow := inspect(t, e, p.Run(t, watched(t, Container{Name: "slow", StopTimeout: &grace, Cmd: handles("trap : TERM")})))
	n := l.WaitFor(t, 0, "observed slow running")
	waitForHandlers(t, slow.ID)
	var ending sync.WaitGroup
	ending.Go(func() { p.Stop(t) })
	l.WaitFor(t, n, "killed slow 15")
	accepts(t, e, "shuts down", false)
	signalFromHost(t, slow, syscall.SIGKILL)
	ending.Wait()
	p.Up(t)
	accepts(t, e, "is back", true)
}

// begins is the container of healthdAway whose start is an event, from which the next healthd goes on.
const begins = "begins"

// healthdAway runs one healthd, does something while it is away, and checks that the next one,
// which knows what the first one saw, tells of operators' stops of the stopped ones only. It
// returns what the next one tells.
func healthdAway(t *testing.T, p Private, meanwhile func()) *Log {
	t.Helper()
	dir := t.TempDir()
	first := p.Connect(t, dir)
	known := map[string]*runtime.Container{}
	l := Watch(t, first)
	n := l.WaitFor(t, 0, "synced start")
	p.Run(t, watched(t, Container{Name: begins, Cmd: deaf}))
	l.WaitFor(t, n, "observed "+begins+" running")
	l.stop()
	for _, u := range l.Updates() {
		if u.Kind == runtime.Observed {
			known[u.ID] = u.Container
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	second := Record(t, &runtime.Watcher{
		Name: p.Name(), Source: p.Connect(t, dir), Since: l.SeenUntil(),
		KnownRun: func(id string) (runtime.Run, bool) {
			if c := known[id]; c != nil {
				return c.Run(), c.State.Alive()
			}
			return runtime.Run{}, false
		},
		Wanted: func(c runtime.Traits) bool { return c.Labels["watched"] == t.Name() },
	})
	second.WaitFor(t, 0, "connected complete", "synced start")
	seen := 0
	for _, u := range second.Updates() {
		if u.Kind != runtime.Observed || known[u.ID] == nil {
			continue
		}
		seen++
		told := false
		for _, cause := range u.Causes {
			t.Logf("%s: %+v", u.Container.Name, cause)
			told = told || cause.Kind == runtime.Killed && u.Container.Stops(cause.Signal)
		}
		if told != strings.HasPrefix(u.Container.Name, "stopped") {
			t.Errorf("%s: told of an operator's stop: %v", u.Container.Name, told)
		}
	}
	if seen != len(known) {
		t.Errorf("%d of %d containers were told of", seen, len(known))
	}
	return second
}

func endsWhileHealthdIsAway(t *testing.T, p Private) {
	e := connect(t, p)
	run := func(name string) *runtime.Container {
		c := inspect(t, e, p.Run(t, watched(t, Container{Name: name, Cmd: endsOn("USR1", 7)})))
		waitForHandlers(t, c.ID)
		return c
	}
	crashed, stopped, lives := run("crashed"), run("stopped"), run("lives")
	healthdAway(t, p, func() {
		p.OperatorStops(t, stopped.ID, syscall.SIGKILL)
		signalFromHost(t, crashed, syscall.SIGUSR1)
		waitForEnd(t, e, stopped.ID)
		waitForEnd(t, e, crashed.ID)
	})
	if c := inspect(t, e, lives.ID); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
	if c := inspect(t, e, crashed.ID); c.ExitCode != 7 {
		t.Errorf("got %+v", c)
	}
}

// What was made while healthd was away, and crashed, is known to have done so. What had ended when
// healthd first came is not.
func madeWhileHealthdIsAway(t *testing.T, p Private) {
	e := connect(t, p)
	crash := func(name string) {
		waitForEnd(t, e, p.Run(t, watched(t, Container{Name: name, Cmd: []string{"sh", "-c", "exit 7"}})))
	}
	crash("found")
	l := healthdAway(t, p, func() {
		crash("crashed")
		stopped := p.Run(t, watched(t, Container{Name: "stopped", Cmd: deaf}))
		p.OperatorStops(t, stopped, syscall.SIGKILL)
		waitForEnd(t, e, stopped)
	})
	seen := 0
	for _, u := range l.Updates() {
		if u.Kind != runtime.Observed || u.Container.Name == begins {
			continue
		}
		seen++
		killed := slices.ContainsFunc(u.Causes, func(u runtime.Update) bool { return u.Kind == runtime.Killed })
		crashed := u.StateFromEvent && !killed
		if u.Container.State != runtime.Exited || crashed != (u.Container.Name == "crashed") {
			t.Errorf("%s has crashed by itself: %v (%+v)", u.Container.Name, crashed, u)
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 containers were told of", seen)
	}
}

func taskIsDeletedWhileHealthdIsAway(t *testing.T, p Private) {
	e := connect(t, p)
	stopped := p.Run(t, watched(t, Container{Name: "stopped-and-deleted", Cmd: deaf}))
	deleted := p.Run(t, watched(t, Container{Name: "deleted", Cmd: deaf}))
	healthdAway(t, p, func() {
		p.OperatorStops(t, stopped, syscall.SIGKILL)
		waitForEnd(t, e, stopped)
		for _, id := range []string{stopped, deleted} {
			p.(taskDeleter).DeleteTask(t, id)
		}
	})
}
