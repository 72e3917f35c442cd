package scenarios

import (
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

func lifeIsWatched(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "life", Cmd: endsOn("TERM", 3)}))
	p.Run(t, Container{Name: "unwatched", Cmd: deaf})
	n = l.WaitFor(t, n, "observed life running")
	waitForHandlers(t, id)
	p.OperatorStops(t, id, syscall.SIGTERM)
	n = waitForStop(t, p, l, n, "life", "15", 3)
	start(t, e, id)
	n = l.WaitFor(t, n, "observed life running")
	if _, _, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	p.OperatorRestarts(t, id)
	restarted := []string{"killed life", "died life", "observed life running"}
	if p.Name() == podman { // has forgotten who ended the run once the next one has begun
		restarted = restarted[1:]
	}
	n = l.WaitFor(t, n, restarted...)
	p.Pause(t, id)
	n = l.WaitFor(t, n, "observed life paused")
	p.Unpause(t, id)
	n = l.WaitFor(t, n, "observed life running")
	p.Rename(t, id, "life-renamed")
	n = l.WaitFor(t, n, "observed life-renamed running")
	p.OperatorStops(t, id, syscall.SIGKILL)
	n = waitForStop(t, p, l, n, "life-renamed", "", 137)
	p.Remove(t, id)
	l.WaitFor(t, n, "removed life-renamed")
	l.MustNotContain(t, "observed unwatched", "lost", "synced lossy")
}

// waitForStop waits until an operator's stop and the end are told, and the end is observed. Podman
// tells of a stop after the end, and as one with the stop signal.
func waitForStop(t *testing.T, p Private, l *Log, n int, name, signal string, code int) int {
	t.Helper()
	if p.Name() != podman {
		return l.WaitForEnd(t, l.WaitFor(t, n, strings.TrimSpace("killed "+name+" "+signal)), name, code)
	}
	died := l.WaitFor(t, n, fmt.Sprintf("died %s %d", name, code))
	return max(died, l.WaitFor(t, n, "killed "+name+" 15", fmt.Sprintf("observed %s exited %d", name, code)))
}

// stopByHealthd returns what a Watcher tells of a stop by healthd.
func stopByHealthd(t *testing.T, p Private) *Log {
	t.Helper()
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "own", Cmd: endsOn("TERM", 0)}))
	n = l.WaitFor(t, n, "observed own running")
	waitForHandlers(t, id)
	stop(t, e, id, patience.Limit)
	n = l.WaitForEnd(t, n, "own", 0)
	start(t, e, id)
	l.WaitFor(t, n, "observed own running")
	return l
}

func ownStopIsTold(t *testing.T, p Private) {
	l := stopByHealthd(t, p)
	n := l.WaitFor(t, 0, "killed own 15")
	if p.Name() == podman { // has told the end before, and not always the stop
		return
	}
	l.WaitFor(t, n, "died own 0")
	l.WaitFor(t, n, "stopped own") // before the end, from Docker 26 on
}

func ownStopIsNotTold(t *testing.T, p Private) {
	stopByHealthd(t, p).MustNotContain(t, "killed own", "stopped own")
}

// A crash and a host's kill look the same: nobody's stop.
func killFromHostIsNobodysStop(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "killed", Cmd: deaf}))
	n = l.WaitFor(t, n, "observed killed running")
	signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	l.WaitForEnd(t, n, "killed", 137)
	l.MustNotContain(t, "killed killed", "stopped killed")
}

// While healthd stops a run, an operator does, too.
func operatorStopsWhatHealthdStops(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := p.Run(t, watched(t, Container{Name: "both", Cmd: handles("trap 'tail -f /dev/null & :' TERM")}))
	n = l.WaitFor(t, n, "observed both running")
	waitForHandlers(t, id)
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(t.Context(), id, patience.Limit) }()
	Eventually(t, "healthd's signal has come", func() bool { return ProcessesRunning(id, "tail") == 1 })
	p.OperatorStops(t, id, syscall.SIGTERM)
	n = l.WaitFor(t, n, "killed both 15", "killed both 15")
	if p.Name() == containerd { // a further stop by healthd is told to no one
		signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	} else {
		stop(t, e, id, 0)
	}
	l.WaitForEnd(t, n, "both", 137)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	kills, err := e.KillEvents(t.Context(), inspect(t, e, id).Run())
	if err != nil || len(kills) < 2 || !kills[0].Time.Before(kills[1].Time) {
		t.Errorf("the signals to the run: got %+v, %v", kills, err)
	}
	told := 0
	for _, u := range l.Updates() {
		if u.Kind != runtime.Killed {
			continue
		}
		told++
		if !slices.ContainsFunc(kills, func(k runtime.Event) bool { return k.Time.Equal(u.Time) }) {
			t.Errorf("%+v is told as another signal later", u)
		}
	}
	if told != len(kills) {
		t.Errorf("%d signals were told, and %d later", told, len(kills))
	}
}

func endForWantOfMemory(t *testing.T, p Private) {
	e := connect(t, p)
	l := Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	// containerd's shim loses the news of the kernel if the cgroup is gone before it has read them, and the
	// client takes no kill for the cause of an exit that comes a second later, as on a busy machine.
	const script = "test -e /tmp/again && exec sleep 1000; touch /tmp/again; sleep 0.3; tail /dev/zero; code=$?; sleep 0.5; exit $code"
	var id string
	patience.Until(t, "it is known to be killed for want of memory", func() error {
		if id != "" {
			p.Remove(t, id)
		}
		id = p.Run(t, watched(t, Container{Name: "greedy", Memory: 16 << 20, Cmd: []string{"sh", "-c", script}}))
		n = l.WaitForEnd(t, n, "greedy", 137)
		if c := inspect(t, e, id); !c.OOMKilled {
			return fmt.Errorf("got %+v", c)
		}
		return nil
	})
	start(t, e, id)
	n = l.WaitFor(t, n, "observed greedy running")
	signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	l.WaitForEnd(t, n, "greedy", 137)
	if c := inspect(t, e, id); c.OOMKilled {
		t.Errorf("the next run ended otherwise: got %+v", c)
	}
}

func manyAtOnce(t *testing.T, p Private) {
	const many = 30
	l := Watch(t, connect(t, p))
	l.WaitFor(t, 0, "synced start")
	ids := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() { ids[i] = p.Run(t, watched(t, Container{Cmd: deaf})) })
	}
	wg.Wait()
	Eventually(t, "all run", func() bool { return l.count(runtime.Running) == many })
	began := time.Now()
	late := Watch(t, connect(t, p))
	late.WaitFor(t, 0, "synced start")
	t.Logf("%d containers in sync after %v", many, time.Since(began))
	if n := late.count(runtime.Running); n != many {
		t.Errorf("got %d containers", n)
	}
	for _, id := range ids {
		wg.Go(func() { p.Remove(t, id) })
	}
	wg.Wait()
	Eventually(t, "all are gone", func() bool { return l.count("") == 0 })
	l.MustNotContain(t, "synced lossy")
}

// The engine filters its events, and tells them in order and by one clock.
func eventsOfALife(t *testing.T, p Private) {
	e := connect(t, p)
	since, err := e.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Subscribe(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	id := p.Run(t, Container{Name: "told", Labels: map[string]string{"a": "b"}, Cmd: deaf})
	run := inspect(t, e, id).Run()
	if _, _, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	p.OperatorStops(t, id, syscall.SIGKILL)
	var got []string
	for len(got) == 0 || got[len(got)-1] != "die" {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != id {
			continue
		}
		got = append(got, string(ev.Action))
		now, _ := e.Clock(t.Context())
		if ev.Time.Before(since) || ev.Time.After(now.Add(time.Second)) { // Clock is to the second
			t.Errorf("%s: at %v, want it from %v to %v", ev.Action, ev.Time, since, now)
		}
		if ev.Action == runtime.ActionStart && !run.IsStart(ev.Time) {
			t.Errorf("the start event of %v is not that of %+v", ev.Time, run)
		}
		anonymous := ev.Action == runtime.ActionNetwork || p.Name() == containerd && ev.Action != runtime.ActionUpdate
		if !anonymous && (ev.Name != "told" || ev.Labels["a"] != "b") {
			t.Errorf("%s: got %q, %v", ev.Action, ev.Name, ev.Labels)
		}
	}
	// Engines leave the network before or after they tell the end, and Podman 5.8 tells that of a
	// command twice.
	if end := len(got) - 2; got[end] == string(runtime.ActionNetwork) {
		got = slices.Delete(got, end, end+1)
	}
	got = slices.Compact(got)
	want := map[string]string{
		docker:     "[create network start exec_die kill die]",
		podman:     "[create start exec_die kill die]",
		containerd: "[create start update exec_die kill die]", // the update is nerdctl's
	}[p.Name()]
	if s := fmt.Sprint(got); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}
