package faults

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// stream is an answer to a request for events.
type stream struct {
	t        *clockTest
	messages <-chan events.Message
	errs     <-chan error
}

func (t *clockTest) ask(c *client.Client, since, until time.Time, filter ...filters.KeyValuePair) stream {
	o := events.ListOptions{Filters: filters.NewArgs(filter...)}
	if !since.IsZero() {
		o.Since = harness.FormatTime(since)
	}
	if !until.IsZero() {
		o.Until = harness.FormatTime(until)
	}
	messages, errs := c.Events(t.context(), o)
	return stream{t, messages, errs}
}

// next waits for n events.
func (s stream) next(n int) []events.Message {
	s.t.Helper()
	var got []events.Message
	for len(got) < n {
		select {
		case m := <-s.messages:
			got = append(got, m)
		case err := <-s.errs:
			s.t.Fatalf("after %d of %d events: %v", len(got), n, err)
		}
	}
	return got
}

// all returns the events until the answer ends.
func (s stream) all() []events.Message {
	s.t.Helper()
	var got []events.Message
	for {
		select {
		case m := <-s.messages:
			got = append(got, m)
		case err := <-s.errs:
			if !errors.Is(err, io.EOF) {
				s.t.Fatalf("after %d events: %v", len(got), err)
			}
			return got
		}
	}
}

// rename makes an event that has that name.
func (t *clockTest) rename(id, name string) {
	t.Helper()
	if err := t.e.Client().ContainerRename(t.context(), id, name); err != nil {
		t.Fatal(err)
	}
}

func names(all []events.Message) []string {
	var names []string
	for _, m := range all {
		names = append(names, m.Actor.Attributes["name"])
	}
	return names
}

func at(m events.Message) time.Time { return time.Unix(0, m.TimeNano) }

func shifted(all []events.Message, by time.Duration) []events.Message {
	all = slices.Clone(all)
	for i := range all {
		told := at(all[i]).Add(by)
		all[i].Time, all[i].TimeNano = told.Unix(), told.UnixNano()
	}
	return all
}

// replays checks that an event has the same time whenever it is told.
func (t *clockTest) replays() {
	id := t.e.Create(t, dockertest.RunOptions{})
	filter := filters.Arg("container", id)
	live := t.ask(t.c, time.Now(), time.Time{}, filter, filters.Arg("event", "rename"))
	offsets := []time.Duration{0, 50 * time.Millisecond, -time.Hour, 3 * harness.Year, 5 * time.Minute, -time.Second}
	var told []events.Message
	for i, offset := range offsets {
		if i > 0 { // the first comes from a clock that was never set
			t.p.Clock.Set(offset)
		}
		t.rename(id, fmt.Sprint("replays-", i))
		told = append(told, live.next(1)...)
	}
	t.p.Clock.Set(4 * harness.Year) // all of them are in the past
	if replayed := t.ask(t.c, time.Unix(1, 0), t.p.Clock.Now(), filter, filters.Arg("event", "rename")).all(); !reflect.DeepEqual(replayed, told) {
		t.Errorf("told %+v, and later %+v", told, replayed)
	}
	actual := t.ask(t.e.Client(), time.Unix(1, 0), time.Now(), filter, filters.Arg("event", "rename")).all()
	for i, offset := range offsets {
		if want := shifted(actual[i:i+1], offset); !reflect.DeepEqual(told[i:i+1], want) {
			t.Errorf("the clock is %v ahead: told %+v, want %+v", offset, told[i], want[0])
		}
	}
}

// sinceAndUntil compares answers with those of an engine whose clock was never set: one that
// was always wrong must choose the same events.
func (t *clockTest) sinceAndUntil() {
	id, other := t.e.Create(t, dockertest.RunOptions{}), t.e.Create(t, dockertest.RunOptions{})
	for i := range 10 {
		t.rename(id, fmt.Sprint("one-", i))
		t.rename(other, fmt.Sprint("other-", i))
	}
	const offset = -3 * time.Hour
	t.p.Clock.Steps = []harness.ClockStep{{From: time.Unix(0, 0), Offset: offset}}
	all := t.ask(t.e.Client(), time.Unix(1, 0), time.Now()).all()
	if len(all) < 22 {
		t.Fatalf("the engine has %d events", len(all))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		from := r.IntN(len(all))
		since, until := at(all[from]), at(all[from+r.IntN(len(all)-from)])
		if i%4 == 0 {
			since = since.Add(1)
			until = time.Now()
		}
		filter := []filters.KeyValuePair{}
		if i%2 == 0 {
			filter = append(filter, filters.Arg("container", id), filters.Arg("event", "rename"))
		}
		got, want := t.ask(t.c, since.Add(offset), until.Add(offset), filter...).all(), t.ask(t.e.Client(), since, until, filter...).all()
		if !reflect.DeepEqual(got, shifted(want, offset)) {
			t.Errorf("from %v until %v with %v:\ngot  %v\nwant %v", since, until, filter, got, want)
		}
	}
}

// hiddenEvents checks what an engine finds after its clock was set back: it looks from the
// newest event back until one is too old, whether the filter wants that one or not.
func (t *clockTest) hiddenEvents() {
	id, other := t.e.Create(t, dockertest.RunOptions{}), t.e.Create(t, dockertest.RunOptions{})
	filter := filters.Arg("container", id)
	rename := filters.Arg("event", "rename")
	t.rename(id, "first")
	t.p.Clock.Set(time.Hour)
	t.rename(id, "ahead")
	t.p.Clock.Set(-time.Hour)
	t.rename(other, "behind")
	t.p.Clock.Set(2 * time.Hour)
	t.rename(id, "newest")
	told := t.ask(t.c, time.Unix(1, 0), t.p.Clock.Now(), rename, filter, filters.Arg("container", other)).all()
	if want := []string{"first", "ahead", "behind", "newest"}; !slices.Equal(names(told), want) {
		t.Fatalf("got %v, want %v", names(told), want)
	}
	first, ahead, behind, newest := at(told[0]), at(told[1]), at(told[2]), at(told[3])
	for _, tt := range []struct {
		what         string
		since, until time.Time
		want         []string
	}{
		{"an event before the set-back", ahead, newest, []string{"newest"}},
		{"the event of the set-back", behind, newest, []string{"first", "ahead", "newest"}},
		{"what is too new hides nothing", behind, first, []string{"first"}},
		{"nothing but the future", newest.Add(1), newest.Add(2), nil},
		{"until alone", time.Time{}, ahead, []string{"first", "ahead"}},
	} {
		if got := names(t.ask(t.c, tt.since, tt.until, filter, rename).all()); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.what, got, tt.want)
		}
	}
	t.p.Clock.Set(-2 * time.Hour)
	t.rename(id, "oldest")
	live := t.ask(t.c, first, time.Time{}, filter, rename)
	whole := t.ask(t.c, at(told[0]).Add(-4*time.Hour), time.Time{}, filter, rename)
	whole.next(4)
	t.rename(id, "later")
	if got := names(append(live.next(1), whole.next(1)...)); !slices.Equal(got, []string{"later", "later"}) {
		t.Errorf("after what is remembered came %v", got)
	}
}

// untilInTheFuture checks that an answer stays open until its end has come by the engine's clock.
func (t *clockTest) untilInTheFuture() {
	id := t.e.Create(t, dockertest.RunOptions{})
	filter, rename := filters.Arg("container", id), filters.Arg("event", "rename")
	t.rename(id, "future-0")
	t.p.Clock.Set(-time.Hour)
	t.rename(id, "future-1")
	open := t.ask(t.c, time.Unix(1, 0), time.Now(), filter, rename)
	if got := names(open.next(2)); !slices.Equal(got, []string{"future-0", "future-1"}) {
		t.Errorf("got %v", got)
	}
	t.rename(id, "future-2")
	if got := names(open.next(1)); !slices.Equal(got, []string{"future-2"}) {
		t.Errorf("after what is remembered came %v", got)
	}
	t.p.Clock.Set(time.Hour)
	for _, ahead := range []time.Duration{time.Millisecond, 500 * time.Millisecond} {
		began := time.Now()
		got := names(t.ask(t.c, time.Unix(1, 0), t.p.Clock.Now().Add(ahead), filter, rename).all())
		if took := time.Since(began); !slices.Equal(got, []string{"future-0", "future-1", "future-2"}) || took < ahead {
			t.Errorf("an answer that ends in %v has %v after %v", ahead, got, took)
		}
	}
}

// forgottenEvents checks that the engine remembers no more than it does.
func (t *clockTest) forgottenEvents() {
	id := t.e.Create(t, dockertest.RunOptions{})
	t.rename(id, "long-ago")
	t.p.Clock.Set(time.Hour)
	harness.FillEventHistory(t.T, t.e)
	all := t.ask(t.e.Client(), time.Unix(1, 0), time.Now()).all()
	if got := t.ask(t.c, time.Unix(1, 0), t.p.Clock.Now()).all(); !reflect.DeepEqual(got, shifted(all, time.Hour)) {
		t.Errorf("of %d events %d are told", len(all), len(got))
	}
	live := t.ask(t.c, time.Unix(1, 0), time.Time{}, filters.Arg("container", id))
	t.rename(id, "now")
	if got := names(live.next(1)); got[0] != "now" {
		t.Errorf("the engine told %v, which it has forgotten", got)
	}
}
