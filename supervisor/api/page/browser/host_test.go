package browser_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"healthd/e2e/ports"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// host is a read-only listener of a healthd without engines: a board and a journal that the test fills.
type host struct {
	t       *testing.T
	board   *supervisor.Board
	journal *journal.Journal
	records *records
	fleet   api.Fleet // nil: it is in none
	warns   atomic.Pointer[[]string]
	address string
	stop    func()
}

// records are the flight records of containers, by ID, newest first.
type records struct {
	mu  sync.Mutex
	all map[string][]supervisor.RecordInfo
}

func (r *records) Find(v *core.View, _ string) []supervisor.RecordInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[v.Container.ID]
}

func (r *records) Read(supervisor.RecordInfo) (*supervisor.FlightRecord, error) {
	return nil, errors.New("nobody reads a record for the page")
}

// keep adds a record of a run.
func (r *records) keep(v *core.View, run int, cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[v.Container.ID] = append([]supervisor.RecordInfo{{Run: run, Time: time.Now(), Cause: cause, Bytes: 7}}, r.all[v.Container.ID]...)
}

func newHost(t *testing.T, views ...*core.View) *host {
	t.Helper()
	return newHostIn(t, nil, views...)
}

func newHostIn(t *testing.T, fleet api.Fleet, views ...*core.View) *host {
	t.Helper()
	h := &host{t: t, fleet: fleet, journal: journal.New(), records: &records{all: map[string][]supervisor.RecordInfo{}}, board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}}, views...)}
	h.listen(ports.Address(t)) // at which it may listen again
	t.Cleanup(func() { h.stop() })
	return h
}

// listen answers at an address until stop is called.
func (h *host) listen(address string) {
	h.t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = ln.Addr().String()
	a := api.New(api.Config{Board: h.board, History: h.journal, Records: h.records, Fleet: h.fleet, Warnings: h.warnings})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, ln, api.OnlyHosts(a.ReadOnly(), nil), 1000, nil) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

func (h *host) warnings() []string {
	if warns := h.warns.Load(); warns != nil {
		return *warns
	}
	return nil
}

func (h *host) url(query string) string { return "http://" + h.address + "/" + query }

// happens puts a view on the board and then records an event, as the loop does.
func (h *host) happens(v *core.View, reason, message string) {
	h.board.Show(v)
	h.record(v, reason, message, time.Now())
}

func (h *host) record(v *core.View, reason, message string, at time.Time) {
	h.journal.Record(core.Event{Time: at, Container: v.Container.Name, Reason: reason, Message: message})
}

// container returns a container of a Compose service that is ready, with liveness and readiness probes.
func container(project, service string, number int, changes ...func(*core.View)) *core.View {
	name := fmt.Sprintf("%s-%s-%d", project, service, number)
	sum := sha256.Sum256([]byte(name))
	id, started := hex.EncodeToString(sum[:]), time.Now().Add(-51*time.Hour)
	full := project + "/" + service
	v := &core.View{
		Container: &runtime.Container{
			Runtime: "docker", ID: id, Name: name, Image: "registry.example/" + full + ":2.14.1", Address: fmt.Sprintf("172.18.0.%d", 2+number),
			State: runtime.Running, StartedAt: started, RestartPolicy: "no",
			Labels: map[string]string{core.ComposeProject: project, core.ComposeService: service},
		},
		Spec:     &core.Spec{Name: service, RestartPolicy: core.Always, Publish: core.Publish{Service: full, Port: 8080}},
		Identity: fmt.Sprintf("%s/%d", full, number), Group: full, Service: full,
		State: core.State{Kept: &core.Kept{
			Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: runtime.Run{ID: id, Started: started.UnixNano()}, StartedAt: started, BeganAt: started},
			Conditions: core.Conditions{Started: condition(true, 51*time.Hour), ContainerReady: condition(true, 51*time.Hour), Ready: condition(true, 51*time.Hour)},
		}},
	}
	probed(v, core.Liveness, prober.Handler{TCPSocket: &prober.TCPSocket{Port: 8080}}, prober.Result{Outcome: prober.Success, Latency: 800 * time.Microsecond})
	probed(v, core.Readiness, prober.Handler{HTTPGet: &prober.HTTPGet{Port: 8080, Path: "/ready"}}, prober.Result{Outcome: prober.Success, Cause: prober.Status, Output: "ok", Latency: 12 * time.Millisecond})
	for _, change := range changes {
		change(v)
	}
	return v
}

func condition(status bool, ago time.Duration) core.Condition {
	return core.Condition{Status: status, Since: time.Now().Add(-ago)}
}

func probed(v *core.View, t core.ProbeType, handler prober.Handler, r prober.Result) {
	v.Spec.Probes[t] = &core.ProbeSpec{Handler: handler, Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	v.State.Health.Probes[t] = core.ProbeState{Result: r.Outcome, Outcome: r.Outcome, Run: 412, Last: r, LastAt: time.Now().Add(-4 * time.Second), Due: time.Now().Add(6 * time.Second)}
}

func failed(v *core.View, t core.ProbeType, run int, output string) {
	y := &v.State.Health.Probes[t]
	y.Outcome, y.Run, y.Last = prober.Failure, run, prober.Result{Outcome: prober.Failure, Cause: prober.Status, Output: output, Latency: 640 * time.Millisecond}
	if run >= 3 {
		y.Result = prober.Failure
	}
}

func unready(v *core.View, since time.Duration) {
	v.State.Conditions.ContainerReady, v.State.Conditions.Ready = condition(false, since), condition(false, since)
}

// What may be wrong with a container.
func notReady(output string) func(*core.View) {
	return func(v *core.View) {
		unready(v, 4*time.Minute)
		failed(v, core.Readiness, 24, output)
	}
}

func failingLiveness(v *core.View) {
	failed(v, core.Liveness, 2, "dial tcp 172.18.0.5:8080: i/o timeout")
}

func unaskedLiveness(v *core.View) {
	y := &v.State.Health.Probes[core.Liveness]
	y.Unknowns, y.UnknownSince, y.Last.Output = 3, time.Now().Add(-30*time.Second), "too many open files"
}

func crashLoop(code int) func(*core.View) {
	return func(v *core.View) {
		unready(v, 70*time.Second)
		v.Container.State = runtime.Exited
		v.State.Engine.State = runtime.Exited
		v.State.Run.Exit = core.Exit{Code: code, Reason: core.ReasonError, StartedAt: time.Now().Add(-75 * time.Second), FinishedAt: time.Now().Add(-70 * time.Second)}
		v.State.Action.Restart, v.State.Action.NotBefore = core.ByExit, time.Now().Add(90*time.Second)
		v.State.Lasting.Backoff = core.BackoffState{Active: true, Delay: 160 * time.Second}
		v.State.Lasting.Restarts[core.ByExit] = 6
	}
}

func starting(v *core.View) {
	v.State.Conditions = core.Conditions{Started: condition(false, 20*time.Second), ContainerReady: condition(false, 20*time.Second), Ready: condition(false, 20*time.Second)}
	v.State.Run.StartedAt = time.Now().Add(-20 * time.Second)
	v.State.Run.ID.Started = v.State.Run.StartedAt.UnixNano()
	v.State.Health.Probes = core.Health{}.Probes
}

func stoppedByOperator(v *core.View) {
	unready(v, 3*time.Hour)
	v.Container.State, v.State.Engine.State = runtime.Exited, runtime.Exited
	v.State.Run.Exit = core.Exit{Code: 143, Reason: core.ReasonStoppedByOperator, FinishedAt: time.Now().Add(-3 * time.Hour)}
	v.State.Ending.By = core.EndedByOperator
}

func paused(v *core.View) {
	unready(v, 9*time.Minute)
	v.Container.State, v.State.Engine.State = runtime.Paused, runtime.Paused
}

func lost(v *core.View) { v.State.Lost = true }

func held(v *core.View) { v.State.Lasting.HeldHere = true }

func invalid(v *core.View) {
	v.Spec, v.Service, v.Invalid = nil, "", `label healthd.liveness.period: must be a duration, is "soon"`
	v.State = core.InvalidState(v.Container, false)
}

func restartedBefore(v *core.View) { v.State.Lasting.Restarts[core.ByLiveness] = 1 }

// past plays an hour that ends with v: each minute a few probes. What fails when is up to trouble, which has the minutes
// ago of a restart by liveness, or is empty.
func (h *host) past(v *core.View, trouble ...int) {
	h.t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(len(v.Container.Name))))
	well, down, again := *container(v.Container.Labels[core.ComposeProject], v.Container.Labels[core.ComposeService], 1), *v, *v
	well.Container, well.Spec = v.Container, v.Spec
	down.State, again.State = v.State.Copy(), v.State.Copy()
	moment := func(view core.View, ago time.Duration) supervisor.Moment {
		return supervisor.Moment{At: time.Now().Add(-ago), View: &view}
	}
	minutes := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	moments := []supervisor.Moment{moment(well, 3*time.Hour)}
	for i, ago := range trouble {
		off, on := well, well
		off.State, on.State = well.State.Copy(), well.State.Copy()
		unready(&off, 0)
		off.State.Action.Stopping = core.ByLiveness
		moments = append(moments, moment(off, minutes(float64(ago)+.6)))
		off.State = off.State.Copy()
		off.State.Engine.State, off.State.Action.Restart = runtime.Exited, core.ByLiveness
		off.State.Run.Exit = core.Exit{Code: 137, Reason: core.ReasonLivenessFailed, FinishedAt: time.Now().Add(-minutes(float64(ago) + .2))}
		moments = append(moments, moment(off, minutes(float64(ago)+.2)))
		starting(&on)
		on.State.Lasting.Restarts[core.ByLiveness] = i + 1
		moments = append(moments, moment(on, minutes(float64(ago))))
		on.State = on.State.Copy()
		on.State.Conditions = well.State.Conditions
		moments = append(moments, moment(on, minutes(float64(ago)-1.4)))
		well.State = on.State
	}
	moments = append(moments, h.results(v, random, trouble)...)
	last := *v
	last.State = v.State.Copy()
	moments = append(moments, moment(last, time.Since(v.State.Conditions.Ready.Since)))
	h.board.Play(v.Container.ID, moments...)
}

// results are of the probes of an hour: slower and slower before each restart.
func (h *host) results(v *core.View, random *rand.Rand, trouble []int) (moments []supervisor.Moment) {
	for second := 3600; second > 0; second -= 10 {
		ago := time.Duration(second) * time.Second
		for t, p := range v.Spec.Probes {
			if p == nil {
				continue
			}
			r := prober.Result{Outcome: prober.Success, Latency: time.Duration((1.5 + random.ExpFloat64()) * float64((1+10*t)*int(time.Millisecond)))}
			for _, at := range trouble {
				before := ago - time.Duration(at)*time.Minute
				if before > 0 && before < 6*time.Minute {
					r.Latency += time.Duration(360-before.Seconds()) * 2 * time.Millisecond
				}
				if before > 30*time.Second && before < 80*time.Second {
					r.Outcome, r.Latency = prober.Failure, time.Second
				}
			}
			if y := &v.State.Health.Probes[t]; y.Outcome == prober.Failure && ago < time.Duration(y.Run)*10*time.Second {
				r = y.Last
			}
			moments = append(moments, supervisor.Moment{At: time.Now().Add(-ago), Probe: core.ProbeType(t), Result: r})
		}
	}
	return moments
}

// crowd returns so many containers of a few projects. Every so often one is in trouble; with healthy, none is.
func crowd(n int, healthy bool) (all []*core.View) {
	services := []string{"web", "api", "db", "cache", "worker", "mailer", "search"}
	for i := range n {
		project := fmt.Sprintf("shop-%02d", i/25+1)
		v := container(project, services[i%25%len(services)], i%25/len(services)+1)
		switch {
		case healthy:
		case i == 37 || i == 41 || i == 44:
			notReady("HTTP probe failed with statuscode: 503: connection pool exhausted")(v)
		case i == 512:
			crashLoop(1)(v)
		case i%331 == 17:
			starting(v)
		case i == 700:
			stoppedByOperator(v)
		case i == 333:
			failingLiveness(v)
		}
		all = append(all, v)
	}
	return all
}
