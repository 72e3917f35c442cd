package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// scene is a Notifier whose board and receivers the test plays.
type scene struct {
	t       *testing.T
	journal *journal.Journal
	file    string
	all     []Receiver
	now     *Notifier // of this daemon
	end     func()

	mu       sync.Mutex
	wrong    map[string]finding
	answer   func(ctx context.Context, receiver string) error
	got      []string // "RECEIVER: TITLE"
	messages []*Message
}

func newScene(t *testing.T, names ...string) *scene {
	s := &scene{t: t, journal: journal.New(), wrong: map[string]finding{}, file: filepath.Join(t.TempDir(), "notify.json")}
	s.answer = func(context.Context, string) error { return nil }
	for _, name := range names {
		s.all = append(s.all, receiver(name))
	}
	return s
}

func receiver(name string) Receiver {
	return Receiver{Name: name, Command: []string{"page"}, Reasons: Reasons(), GroupWait: 10 * time.Second, Repeat: 4 * time.Hour, Timeout: 10 * time.Second, MaxPerHour: 20}
}

// start starts a daemon's Notifier.
func (s *scene) start() {
	s.t.Helper()
	n := New(Config{Board: supervisor.NewBoard(nil), History: s.journal, Receivers: s.all, Host: "host1", File: s.file})
	n.look = func(open map[string]incident, _ time.Time) facts {
		s.mu.Lock()
		defer s.mu.Unlock()
		f := facts{wrong: map[string]finding{}, unsettled: map[string]bool{}}
		for key, found := range s.wrong {
			f.wrong[key] = found
		}
		return f
	}
	n.try = func(ctx context.Context, r *Receiver, m *Message) error {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		err := answer(ctx, r.Name)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.got, s.messages = append(s.got, r.Name+": "+m.Title), append(s.messages, m)
		}
		return err
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	s.now, s.end = n, func() {
		s.t.Helper()
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
	synctest.Wait() // it has looked once
}

// say changes what the board shows, and wakes the Notifier as the history does.
func (s *scene) say(change func(wrong map[string]finding)) {
	s.mu.Lock()
	change(s.wrong)
	s.mu.Unlock()
	s.journal.Record(core.Event{Time: time.Now(), Reason: core.EventExited, Container: "x"})
}

func (s *scene) fails(name string) {
	s.say(func(wrong map[string]finding) {
		of := subject{Reason: GaveUp, Runtime: "docker", Container: name}
		wrong[of.key()] = finding{incident: incident{subject: of, Cause: "exit code 1"}}
	})
}

func (s *scene) recovers(name string) {
	s.say(func(wrong map[string]finding) {
		of := subject{Reason: GaveUp, Runtime: "docker", Container: name}
		delete(wrong, of.key())
	})
}

func (s *scene) answers(answer func(context.Context, string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// after lets time pass, and compares what receivers got in all.
func (s *scene) after(d time.Duration, want ...string) {
	s.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.got, want) {
		s.t.Errorf("receivers got\n\t%s\nwant\n\t%s", strings.Join(s.got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// events returns the Notifier's own events.
func (s *scene) events() []string {
	var all []string
	for _, ev := range s.journal.Events("", time.Time{}) {
		if ev.Reason == core.EventNotifyFailed || ev.Reason == core.EventNotifyBack {
			all = append(all, ev.Reason+": "+ev.Message)
		}
	}
	return all
}

func (s *scene) wantEvents(want ...string) {
	s.t.Helper()
	got := s.events()
	if len(got) != len(want) {
		s.t.Fatalf("events %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			s.t.Errorf("event %q, want %q", got[i], want[i])
		}
	}
}

func refuse(context.Context, string) error { return errors.New("it answers 500") }

// A receiver that fails is tried again, said to fail once, and gets each message once.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "oncall")
		s.answers(refuse)
		s.start()
		s.fails("web-1")
		s.after(time.Hour)
		s.wantEvents("NotifyFailed: Cannot notify oncall: it answers 500: healthd keeps trying")
		if all := s.now.Problems(); !slices.Equal(all, []string{"cannot notify oncall: it answers 500 (healthd notify test oncall)"}) {
			t.Errorf("problems %q", all)
		}
		if got := s.metric("healthd_notifications_pending"); got != 1 {
			t.Errorf("%v pending", got)
		}
		if got := s.metric("healthd_notifications_total failed"); got < 15 || got > 25 { // 1s … 5m, and then every 5m
			t.Errorf("%v attempts within an hour", got)
		}
		s.answers(func(context.Context, string) error { return nil })
		s.after(5*time.Minute, "oncall: [host1] GaveUp: web-1")
		s.after(2*time.Hour, "oncall: [host1] GaveUp: web-1")
		s.wantEvents("NotifyFailed: ", "NotifyBack: Receiver oncall can be notified again; all was delivered")
		if delivered, pending := s.metric("healthd_notifications_total delivered"), s.metric("healthd_notifications_pending"); delivered != 1 || pending != 0 {
			t.Errorf("%v delivered, %v pending", delivered, pending)
		}
		if all := s.now.Problems(); len(all) > 0 {
			t.Errorf("problems %q", all)
		}
		s.end()
	})
}

// metric returns the sum of a metric's series, or of those with a result.
func (s *scene) metric(name string) (sum float64) {
	s.t.Helper()
	name, result, _ := strings.Cut(name, " ")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.now)
	families, err := registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	found := false
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (result == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == result })) {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !found {
		s.t.Errorf("there is no %s", name)
	}
	return sum
}

// A message that nobody takes is given up after a day, and counted.
func TestGivesUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "oncall")
		s.answers(refuse)
		s.start()
		s.fails("web-1")
		s.after(25 * time.Hour)
		if dropped := s.metric("healthd_notifications_total dropped"); dropped < 1 {
			t.Errorf("%v dropped", dropped)
		}
		s.answers(func(context.Context, string) error { return nil })
		s.recovers("web-1")
		time.Sleep(10 * time.Minute)
		s.wantEvents("NotifyFailed: Cannot notify oncall", "NotifyBack: Receiver oncall can be notified again; 1 messages were given up")
		s.end()
	})
}

// No more than 100 messages wait for a receiver.
func TestPendingIsBounded(t *testing.T) {
	o := newOutbox()
	for i := range 300 {
		o.push(&Message{ID: fmt.Sprint(i)}, dawn)
		o.attempt = i >= 10 // the first of them is being sent for long
	}
	if len(o.Queue) != maxPending || o.dropped != 200 || o.Queue[0].Message.ID != "0" || o.Queue[99].Message.ID != "299" {
		t.Errorf("%d pending from %s on, %d dropped", len(o.Queue), o.Queue[0].Message.ID, o.dropped)
	}
}

// The many incidents of one project hide none of another's, and what no message shows is told by the next one.
func TestProjectsTakeTurns(t *testing.T) {
	now := dawn
	next := func(o *outbox, open map[string]incident) *Message {
		for range 3 {
			m, at := o.step(&Receiver{Name: "oncall", Reasons: []string{GaveUp}, GroupWait: time.Second, Repeat: time.Hour, MaxPerHour: 100}, "host1", open, now)
			if m != nil || at.IsZero() {
				return m
			}
			now = at
		}
		return nil
	}
	open := map[string]incident{}
	add := func(project string, i int) {
		s := subject{Reason: GaveUp, Container: fmt.Sprintf("%s-%03d", project, i), Project: project}
		open[s.key()] = incident{subject: s, Since: now}
	}
	for i := range 60 {
		add("a-tenant", i)
	}
	add("shop", 0)
	o := newOutbox()
	if m := next(o, open); m == nil || !strings.Contains(m.Text, "shop-000") || m.Count != 61 || len(o.Told) != 61 {
		t.Fatalf("got %+v", m)
	}
	for i := range 25 {
		add(fmt.Sprintf("project-%02d", i), 0)
	}
	var counts []int
	for m := next(o, open); m != nil && m.Status == begun; m = next(o, open) {
		counts = append(counts, m.Count)
	}
	if !slices.Equal(counts, []int{10, 10, 5}) || len(o.Told) != 86 {
		t.Errorf("messages tell of %v projects, %d are told of", counts, len(o.Told))
	}
}

// A receiver that hangs delays neither another one nor the end.
func TestHangingReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "dead", "oncall")
		s.answers(func(ctx context.Context, name string) error {
			if name == "dead" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		s.start()
		s.fails("web-1")
		s.after(11*time.Second, "oncall: [host1] GaveUp: web-1")
		s.recovers("web-1")
		s.after(12*time.Second, "oncall: [host1] GaveUp: web-1", "oncall: [host1] Resolved: GaveUp: web-1, after 11s")
		begun := time.Now()
		s.end()
		if took := time.Since(begun); took > 0 {
			t.Errorf("the end took %v", took)
		}
	})
}

// The next daemon sends what is pending, with the ID that it had, repeats nothing, and tells the end.
func TestNextDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "oncall")
		s.start()
		s.fails("web-1")
		s.after(time.Minute, "oncall: [host1] GaveUp: web-1")
		var tried []string
		s.answers(refuse)
		s.fails("web-2")
		s.after(time.Minute, "oncall: [host1] GaveUp: web-1")
		for _, p := range s.kept().boxes()["oncall"].Queue {
			tried = append(tried, p.Message.ID)
		}
		s.end()
		s.answers(func(context.Context, string) error { return nil })
		s.start()
		both := []string{"oncall: [host1] GaveUp: web-1", "oncall: [host1] GaveUp: web-2"}
		s.after(time.Hour, both...)
		if len(tried) != 1 || s.messages[1].ID != tried[0] {
			t.Errorf("the pending message had the ID %v, and got %s", tried, s.messages[1].ID)
		}
		s.recovers("web-1")
		s.end()
		s.start()
		s.after(time.Minute, append(both, "oncall: [host1] Resolved: GaveUp: web-1, after 1h1m")...)
		s.end()
		s.wantEvents("NotifyFailed: Cannot notify oncall")
	})
}

func (s *scene) kept() *kept {
	s.t.Helper()
	k, err := newKeeper(s.file).load()
	if err != nil || k == nil {
		s.t.Fatalf("nothing is kept: %v", err)
	}
	return k
}

// A disk that takes nothing is said once; receivers are told all the same.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "oncall")
		if err := os.WriteFile(s.file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.file = filepath.Join(s.file, "notify.json") // below a file, where nothing can be written
		s.start()
		for i := range 5 {
			s.fails(fmt.Sprint("web-", i))
			time.Sleep(time.Minute)
		}
		s.after(time.Minute, "oncall: [host1] GaveUp: web-0", "oncall: [host1] GaveUp: web-1", "oncall: [host1] GaveUp: web-2",
			"oncall: [host1] GaveUp: web-3", "oncall: [host1] GaveUp: web-4")
		s.end()
		s.wantEvents("NotifyFailed: Cannot read what receivers were told", "NotifyFailed: Cannot keep what receivers were told")
	})
}

// A file that is damaged, or of another version, is said, and replaced.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"", "{", `{"version": 2}`, `[]`} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "oncall")
			if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start()
			s.fails("web-1")
			s.after(time.Minute, "oncall: [host1] GaveUp: web-1")
			s.end()
			s.wantEvents("NotifyFailed: Cannot read what receivers were told")
			if k := s.kept(); len(k.boxes()["oncall"].Told) != 1 {
				t.Errorf("kept %+v", k)
			}
		})
	}
}

// A file with nothing sensible in it harms nobody.
func FuzzKept(f *testing.F) {
	f.Add(`{"version":1,"seq":7,"receivers":{"oncall":{"told":{"k":{"reason":"GaveUp"}},"queue":[null,{"message":null},{"message":{"id":"x"}}],"bucket":{"used":-1}}}}`)
	f.Add(`{"version":1,"receivers":{"oncall":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "notify.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := newKeeper(file).load()
		if err != nil {
			return
		}
		r := receiver("oncall")
		for _, o := range k.boxes() {
			o.expire(dawn)
			o.step(&r, "host1", map[string]incident{}, dawn)
			o.head(dawn)
			o.push(sample(), dawn)
		}
	})
}

// A reload changes who is told. One that stays goes on; one that goes is said to have messages left.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "a", "b")
		s.answers(func(_ context.Context, name string) error {
			if name == "b" {
				return errors.New("it answers 500")
			}
			return nil
		})
		s.start()
		s.fails("web-1")
		s.after(12*time.Second, "a: [host1] GaveUp: web-1")
		if err := s.now.Reload(t.Context(), []Receiver{receiver("a"), receiver("c")}); err != nil {
			t.Fatal(err)
		}
		s.after(time.Minute, "a: [host1] GaveUp: web-1", "c: [host1] GaveUp: web-1")
		s.wantEvents("NotifyFailed: Receiver b is not configured any more: 1 messages were not sent to it")
		if err := s.now.Reload(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		s.recovers("web-1")
		s.after(time.Hour, "a: [host1] GaveUp: web-1", "c: [host1] GaveUp: web-1")
		s.end()
		if err := s.now.Reload(t.Context(), nil); !errors.Is(err, supervisor.ErrStopping) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Events that a receiver names are told from its first start on, also those of the time in which healthd was away.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "oncall")
		s.all[0].Reasons = []string{"OOMKilled"}
		oom := func(name string) {
			s.journal.Record(core.Event{Time: time.Now(), Container: name, Reason: core.EventOOMKilled, Message: "Container " + name + " was killed: out of memory"})
		}
		oom("before-the-first-start")
		s.start()
		synctest.Wait()
		oom("web-1")
		s.after(time.Minute, "oncall: [host1] OOMKilled: web-1")
		s.end()
		oom("web-2")
		s.start()
		s.after(time.Minute, "oncall: [host1] OOMKilled: web-1", "oncall: [host1] OOMKilled: web-2")
		s.end()
	})
}

// Many containers that fail together are one message of bounded size.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 3000
		s := newScene(t, "oncall")
		s.start()
		for i := range crowd {
			s.fails(fmt.Sprintf("web-%04d", i))
		}
		s.after(time.Minute, "oncall: [host1] 3000 new problems (GaveUp 3000)")
		m := s.messages[0]
		if m.Count != crowd || len(m.Entries) != maxListed || len(m.Text) > 4<<10 || !strings.Contains(m.Text, "and 2990 more") {
			t.Errorf("%d of %d entries, text:\n%s", len(m.Entries), m.Count, m.Text)
		}
		s.end()
		s.start() // the next daemon
		s.after(2*time.Minute, "oncall: [host1] 3000 new problems (GaveUp 3000)")
		s.end()
	})
}

// A test message goes at once to whom it is for, whatever is pending.
func TestTest(t *testing.T) {
	s := newScene(t, "a", "b")
	n := New(Config{Receivers: s.all, Host: "host1"})
	n.try = func(_ context.Context, r *Receiver, m *Message) error {
		if r.Name == "b" {
			return errors.New(m.Title)
		}
		return nil
	}
	all, err := n.Test(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].Err != nil || all[0].Receiver != "a" || fmt.Sprint(all[1].Err) != "[host1] Test of healthd" {
		t.Errorf("got %+v, %v", all, err)
	}
	one, err := n.Test(t.Context(), "a")
	if err != nil || len(one) != 1 {
		t.Errorf("got %+v, %v", one, err)
	}
	if _, err := n.Test(t.Context(), "c"); !errors.Is(err, ErrUnknownReceiver) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{}).Test(t.Context(), ""); !errors.Is(err, ErrUnknownReceiver) || !strings.Contains(err.Error(), "[[notify]]") {
		t.Errorf("got %v", err)
	}
}

// The pauses between attempts grow from a second to five minutes, and differ between receivers.
func TestPause(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		got, most := pause("oncall", failures), min(maxPause, time.Second<<min(failures-1, 20))
		if got > most || got < most*3/4 {
			t.Errorf("after %d failures: %v, want up to %v", failures, got, most)
		}
	}
	if pause("a", 9) == pause("b", 9) {
		t.Error("two receivers pause alike")
	}
}

// In no hour more messages go than the limit says.
func TestBucket(t *testing.T) {
	for _, perHour := range []int{2, 3, 20, 3600} {
		var b bucket
		var sent []time.Time
		for now := dawn; now.Before(dawn.Add(5 * time.Hour)); now = now.Add(time.Second) {
			if at := b.room(perHour, now); !at.After(now) {
				b.take(perHour, now)
				sent = append(sent, now)
			} else if b.room(perHour, at.Add(time.Millisecond)).After(at.Add(time.Millisecond)) {
				t.Fatalf("%d an hour: room at %v, but there was none", perHour, at)
			}
		}
		for i := range sent {
			if j := i + perHour; j < len(sent) && sent[j].Sub(sent[i]) < time.Hour {
				t.Fatalf("%d an hour: message %d came %v after message %d", perHour, j, sent[j].Sub(sent[i]), i)
			}
		}
		if len(sent) < perHour*2 {
			t.Errorf("%d an hour: only %d within five hours", perHour, len(sent))
		}
	}
	b := bucket{Used: 10, At: dawn}
	if at := b.room(20, dawn.Add(-time.Hour)); at.After(dawn.Add(-50 * time.Minute)) {
		t.Errorf("a clock that was set back by an hour: room at %v", at)
	}
}

// Without receivers nothing is written, and when the last one goes nothing is left of it.
func TestNoReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.start()
		s.fails("web-1")
		s.after(time.Hour)
		s.end()
		if _, err := os.Stat(s.file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a file: %v", err)
		}
		s.all = []Receiver{receiver("oncall")}
		s.start()
		s.after(time.Minute, "oncall: [host1] GaveUp: web-1")
		s.end()
		s.all = nil
		s.start()
		synctest.Wait()
		s.end()
		if k := s.kept(); len(k.Receivers) != 0 {
			t.Errorf("kept %s", k.Receivers)
		}
		s.wantEvents()
	})
}

// What the warning says to run ends it.
func TestProblemEndsWithATest(t *testing.T) {
	n := New(Config{Receivers: []Receiver{{Name: "oncall"}}})
	n.problems.Set("oncall", "cannot notify oncall")
	for _, err := range []error{errors.New("it answers 500"), nil} {
		n.try = func(context.Context, *Receiver, *Message) error { return err }
		if _, testErr := n.Test(t.Context(), ""); testErr != nil || len(n.Problems()) > 0 != (err != nil) {
			t.Errorf("after a test with %v: problems %q, %v", err, n.Problems(), testErr)
		}
	}
}
