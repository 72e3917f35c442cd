package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// began is recent: what is old is not kept.
var began = time.Now().Add(-2 * time.Hour).Truncate(time.Second).UTC()

// fakeEngine is an engine, prober, history and journal of functions; nil: a plain answer.
type fakeEngine struct {
	logs    func(ctx context.Context, lines, bytes int) (runtime.Log, error)
	inquire func(ctx context.Context, timeout time.Duration, bytes int) prober.Answer

	mu     sync.Mutex
	usages int
	events []core.Event
}

func (e *fakeEngine) Logs(ctx context.Context, id string, lines, bytes int) (runtime.Log, error) {
	if e.logs != nil {
		return e.logs(ctx, lines, bytes)
	}
	return runtime.Log{Lines: []runtime.LogLine{{Time: began, Text: "GET / with s3cret"}, {Text: "bye"}}}, nil
}

func (e *fakeEngine) Processes(context.Context, string) (runtime.Processes, error) {
	return runtime.Processes{Titles: []string{"PID", "COMMAND"}, Rows: [][]string{{"1", "java -Dpass=s3cret"}}}, nil
}

func (e *fakeEngine) Usage(context.Context, string) (runtime.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.usages++
	return runtime.Usage{Memory: 60 << 20, MemoryLimit: 64 << 20, CPU: time.Duration(e.usages) * 150 * time.Millisecond, PIDs: 3}, nil
}

func (e *fakeEngine) Inquire(ctx context.Context, x prober.Exec, t prober.Target, timeout time.Duration, bytes int) prober.Answer {
	if e.inquire != nil {
		return e.inquire(ctx, timeout, bytes)
	}
	return prober.Answer{Output: "deadlock: s3cret " + strings.Join(x.Command, " ")}
}

func (e *fakeEngine) Events(container string, since time.Time) []core.Event {
	return []core.Event{{Time: since.Add(10 * time.Minute), Container: container, Reason: "Unhealthy", Message: "got s3cret"}}
}

func (e *fakeEngine) Record(ev core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
}

func (e *fakeEngine) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, ev := range e.events {
		all = append(all, ev.Reason+" "+ev.Message)
	}
	return all
}

func viewOf(name string) *core.View {
	s := core.NewState()
	s.Run.StartedAt, s.Run.BeganAt = began, began
	s.Lasting.Restarts[core.ByLiveness] = 2
	return &core.View{
		Container: &runtime.Container{
			Runtime: "docker", ID: "id-" + name, Name: name, Image: "shop/web:1", State: runtime.Running, StopTimeout: -1,
			Env: []string{"PASS=s3cret", "HOME=/root", "MODE=on"}, Labels: map[string]string{"a": "b", "token": "x-s3cret-y"},
		},
		Identity: name, Service: "shop/web", State: s,
		Spec: &core.Spec{
			Name: "web", Probes: [core.NumProbes]*core.ProbeSpec{core.Liveness: {FailureThreshold: 3}},
			Recorder: core.Recorder{Command: []string{"jstack", "1"}, Timeout: time.Second},
		},
	}
}

func hang(name string) *supervisor.Occasion {
	o := &supervisor.Occasion{View: viewOf(name), Name: name, At: began.Add(time.Hour), Cause: core.ByLiveness}
	o.Recent[core.Liveness] = []supervisor.RecentResult{
		{At: began, Outcome: prober.Success, Latency: time.Millisecond},
		{At: began.Add(time.Hour), Outcome: prober.Failure, Cause: prober.Timeout, Output: "timed out, s3cret", Latency: time.Second},
	}
	return o
}

func crash(name string, code int) *supervisor.Occasion {
	o := hang(name)
	o.Cause, o.Exit = core.ByExit, core.Exit{Code: code, Reason: core.ReasonError, StartedAt: began, FinishedAt: began.Add(time.Minute)}
	return o
}

func newRecorder(e *fakeEngine, dir string) *Recorder {
	return New(Config{Dir: dir, Engines: map[string]Engine{"docker": e}, Asker: e, History: e, Journal: e})
}

// settle has the recorder write what waits.
func settle(t *testing.T, r *Recorder) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ended); err != nil {
		t.Fatal(err)
	}
}

// only returns the one record of a container.
func only(t *testing.T, r *Recorder, name string) *supervisor.FlightRecord {
	t.Helper()
	settle(t, r)
	infos := r.Find(viewOf(name), "")
	if len(infos) != 1 {
		t.Fatalf("there are %d records", len(infos))
	}
	record, err := r.Read(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestRecordOfAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		r := newRecorder(e, t.TempDir())
		start := time.Now()
		r.Record(t.Context(), hang("web-1"))
		if took := time.Since(start); took != samplePause {
			t.Errorf("it took %v", took)
		}
		got := only(t, r, "web-1")
		if got.Run != 3 || got.Cause != "liveness" || got.Message != "liveness probe failed (3 in a row): timed out, $(PASS)" || got.RanSeconds != 3600 || got.Restarts != 2 {
			t.Errorf("got %+v", got)
		}
		if p := got.Probes; len(p) != 1 || p[0].Type != "liveness" || len(p[0].Results) != 2 || p[0].Results[1].Output != "timed out, $(PASS)" || p[0].Results[1].LatencySeconds != 1 {
			t.Errorf("got the probes %+v", p)
		}
		if got.Command.Output != "deadlock: $(PASS) jstack 1" || got.Command.Error != "" {
			t.Errorf("got the command %+v", got.Command)
		}
		if l := got.Log; len(l.Lines) != 2 || l.Lines[0].Text != "GET / with $(PASS)" || !l.Lines[0].Time.Equal(began) || l.Cut || l.Error != "" {
			t.Errorf("got the log %+v", l)
		}
		if p := got.Processes; len(p.Rows) != 1 || p.Rows[0][1] != "java -Dpass=$(PASS)" {
			t.Errorf("got the processes %+v", p)
		}
		if u := got.Usage; u.MemoryBytes != 60<<20 || u.CPUCores != 0.5 || u.PIDs != 3 || u.Error != "" {
			t.Errorf("got the usage %+v", u)
		}
		if len(got.Events) != 1 || got.Events[0].Message != "got $(PASS)" {
			t.Errorf("got the events %+v", got.Events)
		}
		if in := got.Inspection; !slices.Equal(in.Environment, []string{"HOME", "MODE", "PASS"}) || in.Labels["token"] != "x-$(PASS)-y" || in.StopTimeoutSeconds != -1 {
			t.Errorf("got the inspection %+v", in)
		}
		if got := e.told(); len(got) > 0 {
			t.Errorf("told %q", got)
		}
	})
}

func TestRecordOfACrash(t *testing.T) {
	e := &fakeEngine{inquire: func(context.Context, time.Duration, int) prober.Answer {
		t.Error("nothing runs in a container that has ended")
		return prober.Answer{}
	}}
	r := newRecorder(e, "")
	r.Record(t.Context(), crash("web-1", 139))
	got := only(t, r, "web-1")
	if got.Cause != "crash" || got.Message != "exited with code 139 (SIGSEGV)" || got.ExitCode != 139 || got.RanSeconds != 60 || len(got.Log.Lines) != 2 {
		t.Errorf("got %+v", got)
	}
	if got.Usage.Error != "the container has ended" || got.Processes.Error != "the container has ended" || len(got.Command.Command) > 0 {
		t.Errorf("got %+v, %+v, %+v", got.Usage, got.Processes, got.Command)
	}
}

func TestMessages(t *testing.T) {
	oom := crash("a", 137)
	oom.Exit.Reason = core.ReasonOOMKilled
	startup, hook := hang("a"), hang("a")
	startup.Cause, hook.Cause = core.ByStartup, core.ByPostStart
	for want, o := range map[string]*supervisor.Occasion{
		"crash: exited with code 3":                                       crash("a", 3),
		"crash: exited with code 255":                                     crash("a", 255),
		"oom: killed for want of memory (exit code 137)":                  oom,
		"startup: startup probe failed (0 in a row)":                      startup,
		"post_start: post_start hook failed":                              hook,
		"liveness: liveness probe failed (3 in a row): timed out, s3cret": hang("a"),
	} {
		if r := describe(o); r.Cause+": "+r.Message != want {
			t.Errorf("got %s: %s, want %s", r.Cause, r.Message, want)
		}
	}
}

// Whatever hangs or fails, the record has the rest, and comes in time.
func TestRecordWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		e := &fakeEngine{
			logs: func(ctx context.Context, _, _ int) (runtime.Log, error) { <-done; return runtime.Log{}, nil }, // ignores ctx
			inquire: func(ctx context.Context, timeout time.Duration, _ int) prober.Answer {
				if timeout != time.Second {
					t.Errorf("the command may take %v", timeout)
				}
				<-ctx.Done()
				return prober.Answer{Err: errors.New("hung")}
			},
		}
		r := newRecorder(e, "")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		r.Record(ctx, hang("web-1"))
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		close(done)
		got := only(t, r, "web-1")
		if got.Log.Error != "no answer in time" || got.Command.Error != "hung" || len(got.Processes.Rows) != 1 || got.Usage.CPUCores != 0.5 {
			t.Errorf("got %+v", got)
		}
	})
}

// A command gets what its spec says, but is killed before the stop's patience is over.
func TestTimeoutOfTheCommand(t *testing.T) {
	for _, tt := range []struct{ timeout, limit, want time.Duration }{
		{time.Second, 2 * time.Second, time.Second},
		{2 * time.Second, 2 * time.Second, 1700 * time.Millisecond},
		{5 * time.Second, 5 * time.Second, 4700 * time.Millisecond},
		{5 * time.Second, time.Second, 700 * time.Millisecond}, // healthd was busy meanwhile
		{5 * time.Second, 200 * time.Millisecond, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got time.Duration
			e := &fakeEngine{inquire: func(_ context.Context, timeout time.Duration, _ int) prober.Answer {
				got = timeout
				return prober.Answer{}
			}}
			r, o := newRecorder(e, ""), hang("a")
			o.View.Spec.Recorder.Timeout = tt.timeout
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			if r.Record(ctx, o); got != tt.want {
				t.Errorf("of %v within %v: got %v, want %v", tt.timeout, tt.limit, got, tt.want)
			}
			settle(t, r)
		})
	}
}

// What floods is cut, and no half of a secret is left where it was cut.
func TestFloods(t *testing.T) {
	long := "s3cret" + strings.Repeat("-and-more", 20)
	for shift := range 12 {
		synctest.Test(t, func(t *testing.T) { testFlood(t, long, shift) })
	}
}

func testFlood(t *testing.T, long string, shift int) {
	e := &fakeEngine{
		logs: func(_ context.Context, _, bytes int) (runtime.Log, error) {
			text := strings.Repeat(long+"|", 2000)
			return runtime.Log{Lines: []runtime.LogLine{{Text: text[len(text)-bytes+shift:]}}, Cut: true}, nil
		},
		inquire: func(_ context.Context, _ time.Duration, bytes int) prober.Answer {
			return prober.Answer{Output: strings.Repeat(long+"|", 4000)[:bytes-shift], Cut: true}
		},
	}
	r, o := newRecorder(e, ""), hang("a")
	o.View.Container.Env = []string{"PASS=" + long}
	o.Recent[core.Liveness][1].Output = strings.Repeat(long, 10)[:1010+shift%10]
	r.Record(t.Context(), o)
	got := only(t, r, "a")
	if len(got.Command.Output) > commandBytes || !got.Command.Cut || len(got.Log.Lines) != 1 || len(got.Log.Lines[0].Text) > logBytes || !got.Log.Cut {
		t.Fatalf("got %d and %d bytes", len(got.Command.Output), len(got.Log.Lines[0].Text))
	}
	for what, text := range map[string]string{"command": got.Command.Output, "log": got.Log.Lines[0].Text, "probe": got.Probes[0].Results[1].Output} {
		if strings.Contains(text, "and-more") || strings.Contains(text, "s3cret") || len(text) < 100 && what != "probe" {
			t.Errorf("shifted by %d: the %s has a part of the secret, or nothing: %d bytes", shift, what, len(text))
		}
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct{ env, text, want string }{
		{"A=secret", "a secret here", "a $(A) here"},
		{"A=on", "turned on", "turned on"},
		{"PATH=/usr/bin", "in /usr/bin", "in /usr/bin"},
		{"A=one B=one-two", "one-two one", "$(B) one"}, // too short
		{"A=four B=four-five", "four-five four", "$(B) $(A)"},
		{"KEY=-----BEGIN\nMIIE\n-----END", "MIIE and -----BEGIN", "$(KEY) and $(KEY)"},
		{"BARE", "BARE", "BARE"},
	} {
		m := newMask(strings.Split(tt.env, " "), false)
		if got := m.text(tt.text); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.env, got, tt.want)
		}
	}
	var many []string
	for i := range 501 {
		many = append(many, fmt.Sprintf("V%d=value%d", i, i))
	}
	if got := newMask(many, false).text("value7"); strings.Contains(got, "value7") {
		t.Errorf("too many: got %q", got)
	}
	if got := newMask(many[:500], false).text("value7"); got != "$(V7)" {
		t.Errorf("just so many: got %q", got)
	}
	if got := newMask([]string{"A=" + strings.Repeat("x", 16<<10+1)}, false).text("any"); !strings.HasPrefix(got, "(left out") {
		t.Errorf("too long: got %q", got)
	}
}

// A disk that takes nothing is told once. The records are in memory then.
func TestDiskThatTakesNothing(t *testing.T) {
	e, file := &fakeEngine{}, filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRecorder(e, filepath.Join(file, "records")) // a file is in the way
	for code := range 3 {
		r.Record(t.Context(), crash("web-1", code+1))
	}
	settle(t, r)
	if got := e.told(); len(got) != 1 || !strings.HasPrefix(got[0], "RecorderFailed healthd supervises as before") {
		t.Errorf("told %q", got)
	}
	if infos := r.Find(viewOf("web-1"), ""); len(infos) != 3 || infos[0].Run != 5 {
		t.Errorf("there are %+v", infos)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.Record(t.Context(), crash("web-1", 1))
	settle(t, r)
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Record(t.Context(), crash("web-1", 1))
	settle(t, r)
	if got := e.told(); len(got) != 2 {
		t.Errorf("told %q", got)
	}
}

// When very many fail at once, some are not recorded, which is told once. Stops do not wait for them.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{logs: func(ctx context.Context, _, _ int) (runtime.Log, error) {
			<-ctx.Done()
			return runtime.Log{}, ctx.Err()
		}}
		r := newRecorder(e, "")
		running, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(running) }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var crashes sync.WaitGroup
		for i := range 2 * mostWaiting {
			crashes.Go(func() { r.Record(ctx, crash(fmt.Sprint("c", i), 1)) })
		}
		synctest.Wait()
		if got := e.told(); len(got) != 1 || !strings.Contains(got[0], "fail at once") {
			t.Errorf("told %q", got)
		}
		stop, cancelStop := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancelStop()
		r.Record(stop, hang("web-1"))
		crashes.Wait()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := only(t, r, "web-1"); got.Cause != "liveness" || len(got.Processes.Rows) != 1 {
			t.Errorf("got %+v", got)
		}
		if got := e.told(); len(got) != 1 {
			t.Errorf("told %q", got)
		}
	})
}

// A container that prints a short value of its own without an end, under a name that is as long as Linux takes, makes no
// large record. Healthd was killed for want of memory, and again after each start.
func TestNamesThatFlood(t *testing.T) {
	flood := strings.Repeat("aaaa", 32<<10)
	e := &fakeEngine{
		logs: func(_ context.Context, _, bytes int) (runtime.Log, error) {
			return runtime.Log{Lines: []runtime.LogLine{{Text: flood[:min(bytes, len(flood))]}}}, nil
		},
		inquire: func(_ context.Context, _ time.Duration, bytes int) prober.Answer {
			return prober.Answer{Output: strings.Repeat(flood, 3)[:min(bytes, 3*len(flood))], Cut: true}
		},
	}
	r, o := newRecorder(e, ""), hang("a")
	name := strings.Repeat("N", 130_000)
	o.View.Container.Env, o.View.Container.Labels = []string{name + "=aaaa", "N=((((", "O=))))"}, map[string]string{}
	for i := range 40 {
		o.View.Container.Labels[fmt.Sprintf("%d%s", i, name)] = flood[:2*maxValue]
		o.View.Container.Env = append(o.View.Container.Env, fmt.Sprintf("%d%s=value%d", i, name, i))
	}
	o.Recent[core.Liveness][1].Output = flood[:1020]
	var got *supervisor.FlightRecord
	allocated := allocatedBy(func() { got = r.gather(t.Context(), o) })
	data, err := json.Marshal(got)
	if err != nil || len(data) > 2<<20 || allocated > 32<<20 {
		t.Errorf("the record has %d bytes, and took %d: %v", len(data), allocated, err)
	}
	if len(got.Command.Output) > commandBytes || len(got.Log.Lines[0].Text) > logBytes || len(got.Inspection.Labels) != 40 || len(got.Inspection.Environment) != 43 {
		t.Errorf("got %d and %d bytes, %d labels, %d variables",
			len(got.Command.Output), len(got.Log.Lines[0].Text), len(got.Inspection.Labels), len(got.Inspection.Environment))
	}
	if bytes.Contains(data, []byte("aaaa")) {
		t.Error("a value is shown")
	}
}

// allocatedBy returns how many bytes f has allocated, at least.
func allocatedBy(f func()) uint64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
