package faults

import (
	"fmt"

	"healthd/e2e/patience"

	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// An engine behind a proxy whose clock is set answers as an engine would whose machine's
// clock is set.
func TestEngineClockProxy(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	for _, tt := range []struct {
		name string
		test func(*clockTest)
	}{
		{"inspections", (*clockTest).inspections},
		{"lists", (*clockTest).lists},
		{"dates", (*clockTest).dates},
		{"replays", (*clockTest).replays},
		{"since and until", (*clockTest).sinceAndUntil},
		{"hidden events", (*clockTest).hiddenEvents},
		{"until in the future", (*clockTest).untilInTheFuture},
		{"forgotten events", (*clockTest).forgottenEvents},
		{"engine restart", (*clockTest).engineRestart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := harness.StartProxy(t, e)
			c, err := client.NewClientWithOpts(client.WithHost(p.Endpoint()), client.WithAPIVersionNegotiation())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			tt.test(&clockTest{T: t, e: e, p: p, c: c})
		})
	}
}

type clockTest struct {
	*testing.T
	e *dockertest.Engine
	p *harness.Proxy
	c *client.Client // through the proxy
}

func (t *clockTest) context() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	t.Cleanup(cancel)
	return ctx
}

// checkTold checks that a time is told as it was shown by a clock that far ahead.
func (t *clockTest) checkTold(what, actual, told string, offset time.Duration) {
	t.Helper()
	from, err := time.Parse(time.RFC3339Nano, actual)
	got, err2 := time.Parse(time.RFC3339Nano, told)
	if err = errors.Join(err, err2); err != nil || !got.Equal(from.Add(offset)) {
		t.Errorf("%s at %s is told as %s by a clock that was %v ahead, %v", what, actual, told, offset, err)
	}
}

func inspected(t *clockTest, c *client.Client, id string) container.InspectResponse {
	t.Helper()
	in, err := c.ContainerInspect(t.context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// startOf returns when the present run began.
func startOf(t *clockTest, in container.InspectResponse) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, in.State.StartedAt)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (t *clockTest) inspections() {
	const first, last = 90 * time.Minute, -2 * harness.Year
	t.p.Clock.Set(first)
	id := t.e.Run(t, dockertest.RunOptions{Health: &container.HealthConfig{
		Test: []string{"CMD", "true"}, Interval: time.Second, Timeout: 10 * time.Second,
	}})
	before := inspected(t, t.c, id)
	for _, offset := range []time.Duration{first + 50*time.Millisecond, -time.Hour, 0, 3 * harness.Year, last} {
		t.p.Clock.Set(offset)
		if in := inspected(t, t.c, id); in.State.StartedAt != before.State.StartedAt || in.Created != before.Created {
			t.Errorf("the clock is %v ahead: started at %s, created at %s; before at %s and %s",
				offset, in.State.StartedAt, in.Created, before.State.StartedAt, before.Created)
		}
	}
	actual := inspected(t, t.e.Client(), id)
	t.checkTold("the start", actual.State.StartedAt, before.State.StartedAt, first)
	t.checkTold("the creation", actual.Created, before.Created, first)
	if !strings.HasPrefix(before.State.FinishedAt, "0001-01-01T00:00:00") {
		t.Errorf("it never ended, and did so at %s", before.State.FinishedAt)
	}
	now := 0
	if err := t.e.Client().ContainerRestart(t.context(), id, container.StopOptions{Timeout: &now}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the new run has a result of the health check", func() error {
		in := inspected(t, t.e.Client(), id)
		if log := in.State.Health.Log; len(log) == 0 || log[len(log)-1].Start.Before(startOf(t, in)) {
			return fmt.Errorf("the log has %d results", len(log))
		}
		return nil
	})
	after, actual := inspected(t, t.c, id), inspected(t, t.e.Client(), id)
	t.checkTold("the next start", actual.State.StartedAt, after.State.StartedAt, last)
	t.checkTold("the end", actual.State.FinishedAt, after.State.FinishedAt, last)
	t.checkTold("the creation", actual.Created, after.Created, first)
	newest := len(after.State.Health.Log) - 1 // earlier ones may have seen the clock being set
	result, told := actual.State.Health.Log[newest], after.State.Health.Log[newest]
	if !told.Start.Equal(result.Start.Add(last)) || !told.End.Equal(result.End.Add(last)) {
		t.Errorf("a health check from %v to %v is told as from %v to %v", result.Start, result.End, told.Start, told.End)
	}
}

func (t *clockTest) lists() {
	const start = 10 * time.Minute
	t.p.Clock.Set(start)
	id := t.e.Run(t, dockertest.RunOptions{Name: "runs"})
	paused := t.e.Run(t, dockertest.RunOptions{Name: "paused"})
	ended := t.e.Run(t, dockertest.RunOptions{Name: "ended", Cmd: []string{"sh", "-c", "exit 3"}})
	t.e.Run(t, dockertest.RunOptions{Name: "healthy", Health: &container.HealthConfig{Test: []string{"CMD", "true"}, Interval: time.Minute}})
	t.e.Create(t, dockertest.RunOptions{Name: "created"})
	t.e.Pause(t, paused)
	patience.Until(t, "it ends", func() error {
		if status := inspected(t, t.c, ended).State.Status; status != "exited" {
			return errors.New(status)
		}
		return nil
	})
	for _, tt := range []struct {
		offset time.Duration
		age    string
	}{
		{start + 3*time.Minute, "3 minutes"}, {-time.Hour, "Less than a second"}, {0, "Less than a second"},
		{start + 2*time.Hour, "2 hours"}, {start + 3*harness.Year, "3 years"},
	} {
		t.p.Clock.Set(tt.offset)
		want := map[string]string{
			"/runs": "Up " + tt.age, "/paused": "Up " + tt.age + " (Paused)", "/healthy": "Up " + tt.age + " (health: starting)",
			"/ended": "Exited (3) " + tt.age + " ago", "/created": "Created",
		}
		all, err := t.c.ContainerList(t.context(), container.ListOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, l := range all {
			got[l.Names[0]] = l.Status
			if l.ID == id {
				created, _ := time.Parse(time.RFC3339Nano, inspected(t, t.c, id).Created)
				if created.Unix() != l.Created {
					t.Errorf("created at %d, and by the inspection at %v", l.Created, created)
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the clock is %v ahead: %v, want %v", tt.offset, got, want)
		}
	}
}

// dates checks the times that an engine tells in passing, even when it is sick.
func (t *clockTest) dates() {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", t.p.Path)
	}, DisableKeepAlives: true}
	t.p.On("GET /sick", harness.Fails)
	for _, offset := range []time.Duration{time.Hour, -2 * harness.Year, 0} {
		t.p.Clock.Set(offset)
		near := func(what string, told time.Time, err error) {
			t.Helper()
			if err != nil || told.Sub(time.Now().Add(offset)).Abs() > time.Hour/2 {
				t.Errorf("the clock is %v ahead: %s is %v, %v", offset, what, told, err)
			}
		}
		for _, path := range []string{"/_ping", "/containers/json", "/events?since=1", "/sick", "/nosuch"} {
			r, err := http.NewRequestWithContext(t.context(), http.MethodGet, "http://docker"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if dates := answer.Header.Values("Date"); len(dates) != 1 {
				t.Errorf("%s: Dates %q", path, dates)
			}
			date, err := http.ParseTime(answer.Header.Get("Date"))
			near("the Date of "+path, date, err)
		}
		info, err := t.c.Info(t.context())
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339Nano, info.SystemTime)
		near("the system's time", now, err)
	}
}

// engineRestart comes last, because it ends what other tests remember.
func (t *clockTest) engineRestart() {
	id := t.e.Run(t, dockertest.RunOptions{})
	t.p.Clock.Set(time.Hour)
	before := inspected(t, t.c, id)
	t.e.Kill(t)
	t.e.Up(t)
	if after := inspected(t, t.c, id); !after.State.Running || after.State.StartedAt != before.State.StartedAt {
		t.Errorf("after a restart of the engine %+v, before %+v", after.State, before.State)
	}
	if got := t.ask(t.c, time.Unix(1, 0), t.p.Clock.Now(), filters.Arg("container", id)).all(); len(got) > 0 {
		t.Errorf("after a restart the engine remembers %v", got)
	}
	live := t.ask(t.c, time.Unix(1, 0), time.Time{}, filters.Arg("container", id), filters.Arg("event", "rename"))
	t.rename(id, "restarted")
	actual := t.ask(t.e.Client(), time.Unix(1, 0), time.Now(), filters.Arg("container", id), filters.Arg("event", "rename")).all()
	if got := live.next(1); !reflect.DeepEqual(got, shifted(actual, time.Hour)) {
		t.Errorf("told %v, want %v", got, actual)
	}
}
