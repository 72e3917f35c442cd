package journal

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

var _ supervisor.Journal = (*Journal)(nil)

func event(n int) core.Event {
	return core.Event{
		Time: time.Unix(int64(n), 0), Container: fmt.Sprint("web-", n%2), Reason: core.EventReady, Message: fmt.Sprint(n),
	}
}

func TestEvents(t *testing.T) {
	j := New()
	if got := j.Events("", time.Time{}); got == nil || len(got) != 0 {
		t.Errorf("empty journal: %v", got)
	}
	for n := range 6 {
		j.keep(event(n))
	}
	for _, tt := range []struct {
		container string
		since     int64
		want      string
	}{
		{"", 0, "012345"}, {"web-1", 0, "135"}, {"web-0", 3, "4"}, {"", 5, "5"}, {"", 6, ""}, {"gone", 0, ""},
	} {
		got := ""
		for _, ev := range j.Events(tt.container, time.Unix(tt.since, 0)) {
			got += ev.Message
		}
		if got != tt.want {
			t.Errorf("%q since %d: %q, want %q", tt.container, tt.since, got, tt.want)
		}
	}
}

func TestNewestEventsAreKept(t *testing.T) {
	j := New()
	for n := range 2*Size + 3 {
		j.keep(event(n))
	}
	all := j.Events("", time.Time{})
	if len(all) != Size || all[0].Message != fmt.Sprint(Size+3) || all[Size-1].Message != fmt.Sprint(2*Size+2) {
		t.Errorf("%d events, first %s, last %s", len(all), all[0].Message, all[len(all)-1].Message)
	}
	events, last, _ := j.After(2*Size + 1)
	if len(events) != 2 || last != 2*Size+3 {
		t.Errorf("after: %d events, last %d", len(events), last)
	}
	events, last, more := j.After(5)
	if len(events) != maxAfter || last != Size+3+maxAfter || events[0].Message != fmt.Sprint(Size+3) || events[0].Number != Size+4 || events[maxAfter-1].Number != last {
		t.Errorf("far behind: %d events, last %d", len(events), last)
	}
	<-more // there are more at once
	read := len(events)
	for ; last < 2*Size+3; read += len(events) {
		events, last, _ = j.After(last)
	}
	if read != Size {
		t.Errorf("%d events in all", read)
	}
}

// What the log has not read when the daemon ends is written, however much it is.
func TestLogWritesTheRest(t *testing.T) {
	collect, logged := observer.New(zapcore.InfoLevel)
	j := New()
	for n := range 5*maxAfter + 1 {
		j.keep(event(n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Log(ctx, zap.New(collect))
	if got := logged.Len(); got != 5*maxAfter+1 {
		t.Errorf("%d lines", got)
	}
}

func TestAfterSignalsNewEvents(t *testing.T) {
	j := New()
	j.keep(event(1))
	_, last, more := j.After(j.Last())
	select {
	case <-more:
		t.Fatal("nothing has come yet")
	default:
	}
	j.keep(event(2))
	<-more
	if events, _, _ := j.After(last); len(events) != 1 || events[0].Message != "2" {
		t.Errorf("got %v", events)
	}
}

func TestConcurrentUse(t *testing.T) {
	const writers, each = 4, 500
	j := New()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := range each {
				j.keep(event(n))
			}
		})
	}
	for range writers {
		wg.Go(func() {
			for seen := uint64(0); seen < writers*each; {
				events, last, more := j.After(seen)
				if last < seen || uint64(len(events)) > last-seen {
					t.Errorf("%d events from %d to %d", len(events), seen, last)
					return
				}
				if seen = last; seen < writers*each {
					<-more
				}
			}
		})
	}
	wg.Wait()
}

func TestLog(t *testing.T) {
	collect, logged := observer.New(zapcore.InfoLevel)
	synctest.Test(t, func(t *testing.T) {
		j := New()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Log(ctx, zap.New(collect)) }()
		j.keep(core.Event{Container: "web-1", Reason: core.EventUnhealthy, Message: "1/3\nforged"})
		synctest.Wait()
		if got := logged.Len(); got != 1 {
			t.Errorf("%d lines while running, want 1", got)
		}
		j.keep(core.Event{Reason: core.EventRuntimeBack, Message: "back"})
		cancel()
		<-done
	})
	all := logged.AllUntimed()
	if len(all) != 2 {
		t.Fatalf("%d lines, want 2: %v", len(all), all)
	}
	if got := all[0]; got.Level != zapcore.WarnLevel || got.ContextMap()["container"] != "web-1" ||
		got.ContextMap()["reason"] != "Unhealthy" || got.ContextMap()["message"] != "1/3\nforged" || got.Message != "event" {
		t.Errorf("first line: %+v", got)
	}
	if _, has := all[1].ContextMap()["container"]; has || all[1].Level != zapcore.InfoLevel {
		t.Errorf("second line: %+v", all[1])
	}
}

func TestLogReportsMissedEvents(t *testing.T) {
	collect, logged := observer.New(zapcore.InfoLevel)
	j := New()
	for n := range Size + 7 {
		j.keep(event(n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Log(ctx, zap.New(collect))
	first := logged.AllUntimed()[0]
	if logged.Len() != Size+1 || first.Level != zapcore.WarnLevel || first.ContextMap()["count"] != uint64(7) {
		t.Errorf("%d lines, first %+v", logged.Len(), first)
	}
}
