package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

var _ supervisor.Store = (*Journal)(nil)

// open opens a journal that is closed at the end of the test.
func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(Config{Dir: dir, Boot: "boot-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// run runs a journal until the function it returns, or the test ends.
func run(t testing.TB, j *Journal) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx); close(done) }()
	stop = func() error { cancel(); return <-done }
	t.Cleanup(func() { stop() })
	return stop
}

func remember(id, name string) *core.Memory {
	return &core.Memory{Facts: core.Facts{ID: id, Name: name, Kept: &core.Kept{}}}
}

// memories formats what is remembered: "a=1 b=2".
func memories(j *Journal) string {
	var all []string
	for _, m := range j.Memories() {
		all = append(all, m.ID+"="+m.Name)
	}
	return strings.Join(all, " ")
}

// ownReasons are those of the journal's own events.
func ownReasons(j *Journal) string {
	var all []string
	for _, ev := range j.Events("", time.Time{}) {
		if strings.HasPrefix(ev.Reason, "Journal") {
			all = append(all, ev.Reason)
		}
	}
	return strings.Join(all, " ")
}

func isClosedSoon(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// copyFile copies the file as a killed daemon would leave it.
func copyFile(t testing.TB, from string) (dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, fileName))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRememberedIsDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "healthd")
	j := open(t, dir)
	run(t, j)
	full := core.Memory{
		Facts: core.Facts{ID: "a", Name: "web", Kept: &core.Kept{Conditions: core.Conditions{Ready: core.Condition{Status: true}}, Action: core.Action{Stopping: core.ByLiveness, NotBefore: time.Now().Add(5 * time.Second)}}},
		Gates: []core.Gate{{Type: "lb", Status: true}},
	}
	j.keep(event(1))
	j.SetSeen("docker", time.Unix(7, 0))
	j.BootTaken("docker")
	<-j.Remember(&full)

	k := open(t, copyFile(t, dir))
	if got := k.Memories(); len(got) != 1 || toMilliseconds(t, *got[0]) != toMilliseconds(t, full) {
		t.Errorf("got  %+v\nwant %+v", got, full)
	}
	if got := k.Events("", time.Time{}); len(got) != 1 || got[0].Message != "1" || k.Last() != 1 {
		t.Errorf("events %v", got)
	}
	if !k.Seen("docker").Equal(time.Unix(7, 0)) || !k.Seen("other").IsZero() || k.Boot("docker") != "boot-1" {
		t.Errorf("seen %v, boot %q", k.Seen("docker"), k.Boot("docker"))
	}
	if j.Boot("docker") != "" || ownReasons(j)+ownReasons(k) != "" {
		t.Errorf("boot before the first: %q, %s", j.Boot("docker"), ownReasons(k))
	}
	for path, want := range map[string]os.FileMode{dir: 0o750, filepath.Join(dir, fileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// A daemon that is killed before BootTaken leaves the reboot to the next daemon. What one engine has taken in, another one
// that does not come has not.
func TestBootIsWrittenWhenTaken(t *testing.T) {
	dir := t.TempDir()
	for n, d := range []struct {
		boot, before string
		taken        bool
	}{
		{"1", "", false}, {"1", "", true}, {"1", "1", false}, {"2", "1", false}, {"2", "1", true}, {"2", "2", false}, {"3", "2", false},
	} {
		j, err := Open(Config{Dir: dir, Boot: d.boot})
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Boot("away"); got != "" {
			t.Errorf("daemon %d: boot of an engine that never came: %q", n, got)
		}
		if j.HasBoots() != (d.before != "") {
			t.Errorf("daemon %d: there are boots: %v", n, j.HasBoots())
		}
		if j.Boot("docker") != d.before {
			t.Errorf("daemon %d: the one before has left boot %q, want %q", n, j.Boot("docker"), d.before)
		}
		stop := run(t, j)
		if d.taken {
			j.BootTaken("docker")
		}
		j.SetSeen("docker", time.Unix(int64(n)+1, 0))
		<-j.Remember(remember("a", d.boot))
		if err := errors.Join(stop(), j.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestForgottenAndReplaced(t *testing.T) {
	dir := t.TempDir()
	for n, want := range []string{"", "a=0 b=0 c=0", "a=1 b=0", "a=2"} {
		j := open(t, dir)
		if got := memories(j); got != want {
			t.Errorf("daemon %d: %q, want %q", n, got, want)
		}
		stop := run(t, j)
		for _, id := range [][]string{{"a", "b", "c"}, {"a"}, {"a"}, {}}[n] {
			<-j.Remember(remember(id, fmt.Sprint(n)))
		}
		for _, id := range [][]string{{"never"}, {"c"}, {"b", "d"}, {}}[n] {
			j.Remember(remember("d", "short")) // forgotten before or after it is written
			j.Forget(id)
			j.Forget("d")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		j.Close()
	}
}

// countingDatabase counts transactions.
type countingDatabase struct {
	database
	n atomic.Int64
}

func (c *countingDatabase) Update(f func(*bolt.Tx) error) error {
	c.n.Add(1)
	return c.database.Update(f)
}

func TestPendingWritesShareATransaction(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir)
		db := &countingDatabase{database: j.db}
		j.db = db
		var done []<-chan struct{}
		for n := range 30 {
			done = append(done, j.Remember(remember(fmt.Sprint("id", n%3), fmt.Sprint(n))))
			j.keep(event(n))
		}
		begin := time.Now()
		run(t, j)
		for _, c := range done {
			<-c
		}
		if waited := time.Since(begin); waited != 0 || db.n.Load() != 1 {
			t.Errorf("%d transactions after %v", db.n.Load(), waited)
		}

		j.keep(event(30))
		time.Sleep(eventWriteDelay / 2)
		j.keep(event(31))
		j.SetSeen("docker", time.Unix(1, 0))
		time.Sleep(eventWriteDelay/2 - 1)
		synctest.Wait()
		if db.n.Load() != 1 {
			t.Errorf("events alone did not wait for company")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if db.n.Load() != 2 || j.writtenSeq != 32 {
			t.Errorf("%d transactions, %d written", db.n.Load(), j.writtenSeq)
		}

		j.SetSeen("docker", time.Unix(2, 0))
		j.SetSeen("docker", time.Unix(1, 0)) // older
		time.Sleep(seenWriteDelay - 1)
		synctest.Wait()
		j.SetSeen("docker", time.Unix(3, 0))
		if db.n.Load() != 2 {
			t.Errorf("the time seen was not written lazily")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if db.n.Load() != 3 || j.metaDirty {
			t.Errorf("%d transactions", db.n.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if db.n.Load() != 3 {
			t.Errorf("%d transactions when nothing happens", db.n.Load())
		}
	})
	if k := open(t, dir); memories(k) != "id0=27 id1=28 id2=29" || k.Last() != 32 || !k.Seen("docker").Equal(time.Unix(3, 0)) {
		t.Errorf("%s, last %d, seen %v", memories(k), k.Last(), k.Seen("docker"))
	}
}

func TestRunWritesTheRestAtItsEnd(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.keep(event(1))
	done := j.Remember(remember("a", "1"))
	if err := run(t, j)(); err != nil || !isClosedSoon(done) {
		t.Errorf("error %v, answered %v", err, isClosedSoon(done))
	}
	j.keep(event(2))
	if !isClosedSoon(j.Remember(remember("b", "1"))) {
		t.Error("nobody will write this any more")
	}
	j.Close()
	if k := open(t, dir); memories(k) != "a=1" || k.Last() != 1 {
		t.Errorf("%s, last %d", memories(k), k.Last())
	}
}

func TestCloseWithoutRunReleasesWaiters(t *testing.T) {
	j := open(t, t.TempDir())
	done := j.Remember(remember("a", "1"))
	if isClosedSoon(done) {
		t.Error("answered without being written")
	}
	if err := j.Close(); err != nil || !isClosedSoon(done) || !isClosedSoon(j.Remember(remember("a", "2"))) {
		t.Errorf("error %v, answered %v", err, isClosedSoon(done))
	}
	if err := j.Close(); err != nil {
		t.Errorf("twice: %v", err)
	}
}

func TestInMemoryOnly(t *testing.T) {
	j, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, j)
	j.keep(event(1))
	j.SetSeen("docker", time.Unix(1, 0))
	j.Forget("a")
	if !isClosedSoon(j.Remember(remember("a", "1"))) || j.Last() != 1 || j.Seen("docker").IsZero() || len(j.Memories()) != 0 {
		t.Error("a journal in memory is one too")
	}
	if err := errors.Join(stop(), j.Close()); err != nil {
		t.Error(err)
	}
}

func TestReopenContinuesNumbersAndLogsNothingAgain(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	for n := range 5 {
		j.keep(event(n))
	}
	run(t, j)()
	j.Close()

	j = open(t, dir)
	j.keep(event(5))
	if events, last, _ := j.After(3); last != 6 || len(events) != 3 || events[0].Message != "3" || events[2].Message != "5" {
		t.Errorf("last %d, events %v", last, events)
	}
	core, logged := observer.New(zapcore.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Log(ctx, zap.New(core))
	if all := logged.AllUntimed(); len(all) != 1 || all[0].ContextMap()["message"] != "5" {
		t.Errorf("logged %v", all)
	}
}

func TestFileStaysSmall(t *testing.T) {
	total := 50_000
	if testing.Short() {
		total = 2 * Size
	}
	dir := t.TempDir()
	j := open(t, dir)
	j.db.(*bolt.DB).NoSync = true
	for n := 0; n < total; {
		for range 1 + rand.N(300) { // as it is when a loaded host batches
			if n < total {
				j.keep(core.Event{
					Time: time.Unix(int64(n), 0), Container: "web-1", Reason: core.EventUnhealthy,
					Message: fmt.Sprintf("liveness probe failed: GET http://172.17.0.2:8080/healthz: status 503 (%d)", n),
				})
				n++
			}
		}
		if err := j.transact(j.takePending()); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(j.path())
	if err != nil || info.Size() > 8<<20 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	t.Logf("%d events recorded, the newest %d kept in %d kB", total, Size, info.Size()>>10)
	if older, err := checkFile(j.path()); err != nil || older {
		t.Error(older, err)
	}
	j.Close()
	j = open(t, dir)
	all := j.Events("", time.Time{})
	if len(all) != Size || j.Last() != uint64(total) || all[0].Time.Unix() != int64(total-Size) || all[Size-1].Time.Unix() != int64(total-1) {
		t.Errorf("%d events, last %d, first %+v", len(all), j.Last(), all[0])
	}
	j.keep(event(total))
	if events, last, _ := j.After(uint64(total - 1)); last != uint64(total+1) || len(events) != 2 || events[1].Message != fmt.Sprint(total) {
		t.Errorf("a full history goes on with %v, %d", events, last)
	}
}

func TestRecordsThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	stop := run(t, j)
	j.keep(core.Event{Message: strings.Repeat("ä", maxText)})
	j.keep(core.Event{Time: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), Message: "no JSON has this time"})
	for range 2 {
		<-j.Remember(remember("", "no name"))
		<-j.Remember(remember(strings.Repeat("x", 1<<16), "long name"))
		<-j.Remember(&core.Memory{Facts: core.Facts{ID: "far", Kept: &core.Kept{Run: core.Run{StartedAt: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)}}}})
		<-j.Remember(remember("a", strings.Repeat("x", maxRecord)))
		<-j.Remember(remember("b", "fine"))
	}
	if got := ownReasons(j); got != strings.TrimSpace(strings.Repeat("JournalDamaged ", 4)) {
		t.Errorf("each is reported once: %s", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	j.Close()
	k := open(t, dir)
	all := k.Events("", time.Time{})
	if memories(k) != "b=fine" || len(all[0].Message) > maxText || !strings.HasSuffix(all[0].Message, "ä"+cutMark) {
		t.Errorf("%s, message of %d bytes", memories(k), len(all[0].Message))
	}
}

// What bbolt writes is never called damaged.
func TestCheckAcceptsEveryWrittenFile(t *testing.T) {
	j := open(t, t.TempDir())
	j.db.(*bolt.DB).NoSync = true
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 120 {
		for range random.IntN(40) {
			id := fmt.Sprint(random.IntN(400))
			if random.IntN(4) == 0 || n > 90 {
				j.Forget(id)
			} else {
				j.Remember(remember(id, strings.Repeat("x", random.IntN(9)*random.IntN(2000))))
			}
			j.keep(core.Event{Message: strings.Repeat("y", random.IntN(9)*random.IntN(900))})
		}
		if b := j.takePending(); b != nil {
			if err := j.transact(b); err != nil {
				t.Fatal(err)
			}
		}
		if older, err := checkFile(j.path()); err != nil || older {
			t.Fatalf("after %d: %v, %v", n, older, err)
		}
	}
}
