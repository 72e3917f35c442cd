package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"healthd/supervisor/core"
)

// failure is the n-th event of a probe whose output is as long as the prober keeps.
func failure(container string, n int) core.Event {
	return core.Event{
		Time: time.Unix(int64(n), 0), Container: container, Reason: core.EventUnhealthy,
		Message: fmt.Sprintf("Liveness probe failed (1/3): HTTP probe failed with statuscode: 500, %d, ", n) + strings.Repeat("<p>ä\"\n", 1500),
	}
}

// recordQuiet records what containers that seldom change have.
func recordQuiet(j *Journal) {
	for n := range 20 {
		for c := range 10 {
			j.keep(core.Event{Time: time.Unix(int64(n), 0), Container: fmt.Sprint("quiet-", c), Reason: core.EventReady, Message: fmt.Sprint(n)})
		}
	}
	j.keep(core.Event{Time: time.Unix(99, 0), Reason: core.EventRuntimeBack, Message: "healthd is connected to runtime docker again"})
}

// checkQuiet checks that all that recordQuiet recorded is there, in order.
func checkQuiet(t *testing.T, j *Journal) {
	t.Helper()
	for c := range 10 {
		got := ""
		for _, ev := range j.Events(fmt.Sprint("quiet-", c), time.Time{}) {
			got += ev.Message + " "
		}
		if want := "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "; got != want {
			t.Errorf("quiet-%d has the events %s", c, got)
		}
	}
	found := false
	for _, ev := range j.Events("", time.Time{}) {
		found = found || ev.Reason == core.EventRuntimeBack
	}
	if !found {
		t.Error("the event of the host is gone")
	}
}

// checkBounds checks how much the journal holds.
func checkBounds(t *testing.T, j *Journal) {
	t.Helper()
	total, all := 0, j.Events("", time.Time{})
	for _, ev := range all {
		total += len(ev.Container) + len(ev.Reason) + len(ev.Message)
		if len(ev.Message) > 1<<10 || !utf8.ValidString(ev.Message) {
			t.Fatalf("a message of %d bytes, valid %v", len(ev.Message), utf8.ValidString(ev.Message))
		}
	}
	if total > 13<<20 || len(all) > Size {
		t.Errorf("%d events hold %d bytes", len(all), total)
	}
}

func TestNoisyContainerPushesOutNobody(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	stop := run(t, j)
	recordQuiet(j)
	for n := range 3 * Size {
		j.keep(failure("noisy", n))
	}
	checkQuiet(t, j)
	checkBounds(t, j)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	j.Close()

	j = open(t, dir)
	checkQuiet(t, j)
	checkBounds(t, j)
	noisy := j.Events("noisy", time.Time{})
	if len(noisy) == 0 || noisy[len(noisy)-1].Time.Unix() != 3*Size-1 {
		t.Errorf("%d events of the noisy container, without its newest", len(noisy))
	}
}

// What an operator may have to look into shows with journalctl -p warning.
func TestLevels(t *testing.T) {
	for reason, want := range map[string]zapcore.Level{
		core.EventFleetLost: zapcore.WarnLevel, core.EventFleetHostLost: zapcore.WarnLevel, core.EventFleetError: zapcore.WarnLevel,
		core.EventFleetBack: zapcore.InfoLevel, core.EventFleetHostBack: zapcore.InfoLevel,
		"HAProxyLost": zapcore.WarnLevel, "HAProxyError": zapcore.WarnLevel, "HAProxyBack": zapcore.InfoLevel, "DNSError": zapcore.WarnLevel,
		core.EventFileFailed: zapcore.WarnLevel, core.EventEngineRefused: zapcore.WarnLevel, core.EventShutdownIncomplete: zapcore.WarnLevel,
		"FailedPreStopHook": zapcore.WarnLevel, EventJournalDamaged: zapcore.ErrorLevel, core.EventReady: zapcore.InfoLevel,
	} {
		if got := level(reason); got != want {
			t.Errorf("%s is logged as %v, want %v", reason, got, want)
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	collect, logged := observer.New(zapcore.InfoLevel)
	j := New()
	for _, text := range []string{strings.Repeat("x", 1<<10), strings.Repeat("x", 1<<10+1), strings.Repeat("ä", 5<<10), "broken \xff"} {
		j.keep(core.Event{Container: "web-1", Reason: core.EventUnhealthy, Message: text})
	}
	const mark = "… (cut)"
	want := []string{
		strings.Repeat("x", 1<<10), strings.Repeat("x", 1<<10-len(mark)) + mark, strings.Repeat("ä", (1<<10-len(mark))/2) + mark, "broken \uFFFD",
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Log(ctx, zap.New(collect))
	lines, events := logged.AllUntimed(), j.Events("web-1", time.Time{})
	for i, want := range want {
		if got := events[i].Message; got != want {
			t.Errorf("event %d: %d bytes, %.20q … %q", i, len(got), got, got[max(0, len(got)-20):])
		}
		if got := lines[i].ContextMap()["message"]; got != want {
			t.Errorf("log line %d: %.20q", i, got)
		}
	}
}

// Events of a healthd that did not cut them.
func TestLongEventsOfAnOldJournal(t *testing.T) {
	const old = 500
	data := changeDatabase(t, writeFile(t), func(tx *bolt.Tx) error {
		var errs []error
		for n := range old {
			key := eventKey(uint64(301 + n))
			record, err := encode(key, failure("noisy", n))
			errs = append(errs, err, tx.Bucket([]byte(eventsBucket)).Put([]byte(key), record))
		}
		return errors.Join(errs...)
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, dir)
	noisy := j.Events("noisy", time.Time{})
	if len(noisy) != old || j.Last() != 300+old || ownReasons(j) != "" {
		t.Errorf("%d events, last %d, %s", len(noisy), j.Last(), ownReasons(j))
	}
	checkBounds(t, j)
	checkUsable(t, j, dir, 40)
}

// The deletions of a flood are scattered over the file, which bbolt never makes smaller.
func TestFileStaysSmallInAFlood(t *testing.T) {
	for _, tt := range []struct {
		name  string
		text  string
		spine bool
	}{
		{"long output", strings.Repeat("GET /healthz: <b>internal server error</b> ", 250), true},
		{"control characters", strings.Repeat("\x01", 10<<10), false},
	} {
		if testing.Short() && !tt.spine {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			j := open(t, t.TempDir())
			j.db.(*bolt.DB).NoSync = true
			random := rand.New(rand.NewPCG(1, 2))
			for n := 0; n < 2*Size; {
				for range 1 + random.IntN(300) { // as it is when a loaded host batches
					ev := core.Event{Time: time.Unix(int64(n), 0), Reason: core.EventUnhealthy, Message: tt.text}
					switch n++; {
					case n%3 > 0:
						ev.Container = fmt.Sprint("noisy-", n%3)
					default:
						ev.Container, ev.Message = fmt.Sprint("web-", random.IntN(300)), "Container web is ready"
					}
					j.keep(ev)
				}
				if err := j.transact(j.takePending()); err != nil {
					t.Fatal(err)
				}
			}
			info, err := os.Stat(j.path())
			if err != nil || info.Size() > 40<<20 {
				t.Errorf("%d bytes, %v", info.Size(), err)
			}
			t.Logf("%d kB", info.Size()>>10)
			if older, err := checkFile(j.path()); err != nil || older {
				t.Error(older, err)
			}
		})
	}
}
