package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/runtime"
)

// Log is what a Watcher sent.
type Log struct {
	mu      sync.Mutex
	updates []runtime.Update
	names   map[string]string
	stop    func()
}

// Watch records what a Watcher sends of the containers with the label watched=NAME OF THE TEST.
func Watch(t *testing.T, source runtime.Source) *Log {
	t.Helper()
	return Record(t, &runtime.Watcher{Name: "engine", Source: source, Wanted: func(c runtime.Traits) bool { return c.Labels["watched"] == t.Name() }})
}

// Watched returns labels with the one for which Watch looks.
func Watched(t *testing.T, labels map[string]string) map[string]string {
	all := map[string]string{"watched": t.Name()}
	for name, value := range labels {
		all[name] = value
	}
	return all
}

// watched is Watched for a container.
func watched(t *testing.T, c Container) Container {
	c.Labels = Watched(t, c.Labels)
	return c
}

// Record records what w sends until the test ends.
func Record(t *testing.T, w *runtime.Watcher) *Log {
	t.Helper()
	l := &Log{names: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, l.add) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

func (l *Log) add(_ context.Context, u runtime.Update) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updates = append(l.updates, u)
	return nil
}

// Updates returns what was sent so far.
func (l *Log) Updates() []runtime.Update {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.updates)
}

// SeenUntil returns the newest SeenUntil.
func (l *Log) SeenUntil() time.Time {
	updates := l.Updates()
	if len(updates) == 0 {
		return time.Time{}
	}
	return updates[len(updates)-1].SeenUntil
}

// Newest returns the newest observation of a container, and an empty one before the first.
func (l *Log) Newest(id string) *runtime.Container {
	for _, u := range slices.Backward(l.Updates()) {
		if u.Kind == runtime.Observed && u.ID == id {
			return u.Container
		}
	}
	return &runtime.Container{}
}

// count returns how many containers are in the state, or in any.
func (l *Log) count(state runtime.State) int {
	newest := map[string]runtime.State{}
	for _, u := range l.Updates() {
		switch u.Kind {
		case runtime.Observed:
			newest[u.ID] = u.Container.State
		case runtime.Removed:
			delete(newest, u.ID)
		}
	}
	n := 0
	for _, s := range newest {
		if state == "" || s == state {
			n++
		}
	}
	return n
}

// lines returns the updates from the n-th on, a line each.
func (l *Log) lines(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, u := range l.updates[n:] {
		lines = append(lines, l.format(u))
	}
	return lines
}

func (l *Log) format(u runtime.Update) string {
	name := l.names[u.ID]
	switch u.Kind {
	case runtime.Observed:
		l.names[u.ID] = u.Container.Name
		text := fmt.Sprintf("observed %s %s", u.Container.Name, u.Container.State)
		if u.Container.State == runtime.Exited {
			text += fmt.Sprintf(" %d", u.Container.ExitCode)
		}
		return text
	case runtime.Removed:
		return "removed " + name
	case runtime.Killed:
		return fmt.Sprintf("killed %s %d", name, u.Signal)
	case runtime.Died:
		return fmt.Sprintf("died %s %d", name, u.ExitCode)
	case runtime.Stopped:
		return "stopped " + name
	case runtime.Lost:
		return "lost"
	case runtime.Synced:
		return "synced " + u.Reason
	case runtime.Connected:
		return "connected " + [...]string{"unknown", "complete", "restart"}[u.Replay]
	case runtime.Bookmark:
		return "bookmark"
	}
	return "?"
}

// is says that a line says what, and perhaps more after it: "killed web" is true of
// "killed web 15".
func is(line, what string) bool { return line == what || strings.HasPrefix(line, what+" ") }

// WaitFor waits until the lines from the n-th on contain want in this order, and returns the
// index after the last of them. What is wanted may leave out the end of a line.
func (l *Log) WaitFor(t *testing.T, n int, want ...string) int {
	t.Helper()
	end := n
	defer func() {
		if t.Failed() {
			t.Logf("want %q, got %q", want, l.lines(n))
		}
	}()
	Eventually(t, fmt.Sprintf("the watcher sends %q", want), func() bool {
		i := 0
		for at, line := range l.lines(n) {
			if i < len(want) && is(line, want[i]) {
				i, end = i+1, n+at+1
			}
		}
		return i == len(want)
	})
	return end
}

// WaitForEnd waits until an end is told and observed. An inspection may be ahead of the event if
// a signal was told before.
func (l *Log) WaitForEnd(t *testing.T, n int, name string, code int) int {
	t.Helper()
	told := l.WaitFor(t, n, fmt.Sprintf("died %s %d", name, code))
	return max(told, l.WaitFor(t, n, fmt.Sprintf("observed %s exited %d", name, code)))
}

// MustNotContain fails the test if one of the lines says something unwanted.
func (l *Log) MustNotContain(t *testing.T, unwanted ...string) {
	t.Helper()
	for _, line := range l.lines(0) {
		for _, what := range unwanted {
			if is(line, what) {
				t.Errorf("the watcher sent %q: %q", what, l.lines(0))
			}
		}
	}
}
