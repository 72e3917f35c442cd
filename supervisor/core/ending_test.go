package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"healthd/runtime"
)

// Each row of the table at Ending, and of the one in docs/semantics.md.
func TestWhoEndedTheRun(t *testing.T) {
	const ours = "liveness=0s/10s/1/1 grace=5s"
	at := func(w *world, d time.Duration) time.Time { return w.begin.Add(d) }
	for _, tt := range []struct {
		evidence string
		story    []string
		more     func(*world)
		want     Ender
		starts   bool // by its policy Always, or as its engine ended
	}{
		{"none", []string{"0s runs", "10s exits 1"}, nil, EndedByItself, true},
		{"a signal before the run began", []string{"0s runs", "10s old-signal 15", "11s exits 1"}, nil, EndedByItself, true},
		{"a signal that stops nothing", []string{"0s runs", "10s signalled 1", "11s exits 1"}, nil, EndedByItself, true},
		{"a stop signal, and it lives on", []string{"0s runs", "10s signalled 15", "60s exits 1"}, nil, EndedByItself, true},
		{"a stop signal it lived on after, told again", []string{"0s runs", "10s signalled 15", "70s"}, func(w *world) {
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 10*time.Second)})
			w.goesOn("75s exits 1")
		}, EndedByItself, true},
		{"a stop signal", []string{"0s runs", "10s signalled 15", "15s exits 143"}, nil, EndedByOperator, false},
		{"a stop signal, told late", []string{"0s runs", "1s exits 1", "2s exits 143"}, func(w *world) {
			w.goTo(at(w, 4*time.Second))
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 1900*time.Millisecond)})
		}, EndedByOperator, false},
		{"a stop signal, told late, under Never", []string{"policy=Never", "0s runs", "2s exits 143"}, func(w *world) {
			w.goTo(at(w, 4*time.Second))
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 1900*time.Millisecond)})
		}, EndedByOperator, false},
		{"a signal long after the end", []string{"backoff=1m/1m/10m", "0s runs", "1s exits 1", "2s exits 1"}, func(w *world) {
			w.goTo(at(w, 5*time.Second))
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 5*time.Second)})
			w.c.State, w.c.StartedAt = runtime.Running, at(w, 4900*time.Millisecond) // somebody has started it, and that is seen now
			w.step("", &Input{Kind: Observed})
			w.goesOn("6s exits 143")
		}, EndedByOperator, false},
		{"a stop request carried out", []string{"0s runs", "10s stop-event", "11s exits 143"}, nil, EndedByOperator, false},
		{"the same, told after the end", []string{"0s runs", "1s exits 1", "2s exits 143", "3s stop-event"}, nil, EndedByOperator, false},
		{"our stop", []string{ours, "0s runs", "5s liveness fails", "10.1s"}, nil, EndedByHealthd, true},
		{"our stop and its KILL", []string{ours, "stop-takes=6s", "0s runs", "5s liveness fails", "15s signalled 9", "16.5s"}, nil, EndedByHealthd, true},
		{"our stop, its news late", []string{ours, "late-news=yes", "0s runs", "5s liveness fails", "10.1s"}, nil, EndedByHealthd, true},
		{"our stop, and a KILL before its grace is over", []string{ours, "stop-takes=4s", "0s runs", "5s liveness fails", "12s signalled 9", "20s"}, nil, EndedByOperator, false},
		{"our stop, and a second stop signal", []string{ours, "stop-takes=4s", "0s runs", "5s liveness fails", "12s signalled 15", "20s"}, nil, EndedByOperator, false},
		{"a stop signal while we drain", []string{ours, "drain=30s", "0s runs", "5s liveness fails", "12s signalled 15", "13s exits 143"}, nil, EndedByOperator, false},
		{"our KILL, its stop signal told late", []string{ours, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "15s signalled 9"}, func(w *world) {
			w.endRun(137)
			w.step("", &Input{Kind: CallReturned, Call: StopCall})
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 10*time.Second)})
		}, EndedByHealthd, true},
		{"our late stop hits the next run", []string{ours, "drain=0s", "stop-takes=1h", "late-news=yes", "0s runs", "5s liveness fails", "10s liveness succeeds", "11s exits 1", "12s runs"}, func(w *world) {
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: w.now.Add(time.Millisecond)})
			w.endRun(143)
			w.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"a stop that healthd restart has overruled", []string{"stop-takes=1s", "0s runs", "10s signalled 15", "11s restart-asked", "11.5s signalled 9", "12.1s"}, nil, EndedByHealthd, true},
		{"the engine ends", []string{"0s runs", "10s engine-ends", "10s signalled 15", "11s exits 143", "20s engine-restarts"}, nil, EndedByEngine, true},
		{"the engine ends, but was asked before", []string{"0s runs", "10s signalled 15", "11s exits 143", "20s engine-ends", "21s engine-restarts"}, nil, EndedByOperator, false},
		{"the engine is started anew", []string{"0s runs", "10s engine-restarts"}, nil, EndedByEngine, true},
		{"the engine sent it at its start", []string{"0s runs", "10s engine-lost"}, func(w *world) {
			life := EngineLife{Restarted: true, KilledUntil: at(w, 12*time.Second)}
			w.step("", &Input{Kind: EngineRestarted, Early: true})
			w.step("", &Input{Kind: Signalled, Signal: 15, Time: at(w, 11*time.Second), Life: life})
			w.step("", &Input{Kind: Died, Time: at(w, 11*time.Second), ExitCode: 143, Life: life})
			w.endRun(143)
			w.step("", &Input{Kind: Observed})
			w.step("", &Input{Kind: RuntimeBack})
		}, EndedByEngine, true},
		{"the new engine tells the end of a new run", []string{"0s runs", "10s engine-lost"}, func(w *world) {
			life := EngineLife{Restarted: true, KilledUntil: at(w, -time.Second)}
			w.step("", &Input{Kind: EngineRestarted, Early: true})
			w.step("", &Input{Kind: Died, Time: at(w, 11*time.Second), ExitCode: 1, Life: life})
			w.endRun(1)
			w.step("", &Input{Kind: Observed})
			w.step("", &Input{Kind: RuntimeBack})
		}, EndedByItself, true},
		{"it had ended long before its engine", []string{"0s runs", "10s engine-lost"}, func(w *world) {
			w.step("", &Input{Kind: EngineRestarted, Early: true})
			w.endRun(1)
			w.step("", &Input{Kind: Observed})
			w.step("", &Input{Kind: EndedBeforeEngine})
			w.step("", &Input{Kind: RuntimeBack})
		}, EndedUnseen, false},
		{"found ended", []string{"0s found 1m ended"}, nil, EndedUnseen, false},
	} {
		t.Run(tt.evidence, func(t *testing.T) {
			w := tale(t, tt.story...)
			before := w.state.RestartCount()
			if tt.more != nil {
				tt.more(w)
			}
			starts := w.state.Action.Restart != NoCause || w.state.Engine.State.Alive() || w.state.RestartCount() > before
			by := w.state.Ending.By
			if w.state.Engine.State.Alive() { // started again meanwhile: what ended the run before
				by = w.before
			}
			if by != tt.want || starts != tt.starts {
				t.Errorf("ended by %d, starts %v; want %d, %v\n%s", by, starts, tt.want, tt.starts, w.told.String())
			}
		})
	}
}

// news is something that an engine tells of the end of a run, in its own order.
type news struct {
	kind   InputKind
	signal int
	at     time.Duration // since the run began
}

// endings are runs that end, with all that an engine tells of it, and who it was.
var endings = []struct {
	name string
	ours bool // healthd's stop is under way
	news []news
	want Ender
}{
	{"crash", false, []news{{Died, 0, 10 * time.Second}}, EndedByItself},
	{"docker stop", false, []news{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByOperator},
	{"docker stop, with KILL", false, []news{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 20 * time.Second}, {Died, 0, 20 * time.Second}, {StopCarriedOut, 0, 20 * time.Second}}, EndedByOperator},
	{"docker stop, its signal lost", false, []news{{Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByOperator},
	{"docker kill", false, []news{{Signalled, 9, 10 * time.Second}, {Died, 0, 10 * time.Second}}, EndedByOperator},
	{"docker kill --signal HUP, and a crash", false, []news{{Signalled, 1, 9 * time.Second}, {Died, 0, 10 * time.Second}}, EndedByItself},
	{"our stop", true, []news{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByHealthd},
	{"our stop, with KILL", true, []news{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 15 * time.Second}, {Died, 0, 15 * time.Second}, {StopCarriedOut, 0, 15 * time.Second}}, EndedByHealthd},
	{"our stop, its signals lost", true, []news{{Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByHealthd},
	{"our stop, hurried by docker kill", true, []news{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 12 * time.Second}, {Died, 0, 12 * time.Second}}, EndedByOperator},
	{"our stop, joined by docker stop", true, []news{{Signalled, 15, 10 * time.Second}, {Signalled, 15, 12 * time.Second}, {Died, 0, 13 * time.Second}, {StopCarriedOut, 0, 13 * time.Second}}, EndedByOperator},
}

// FuzzWhoEndedTheRun tells the news of an ending in orders that engines produce: the
// stream of events keeps its own order, an inspection and the return of our call come at
// any time after the end, a reconnect tells events again, a look-up tells lost signals
// late. The answer is always the same.
func FuzzWhoEndedTheRun(f *testing.F) {
	for i := range endings {
		f.Add(byte(i), uint64(i))
		f.Add(byte(i), uint64(100+i))
	}
	f.Fuzz(func(t *testing.T, which byte, seed uint64) {
		ending := endings[int(which)%len(endings)]
		w := newWorld(t)
		w.silent = true
		w.goesOn("backoff=1h/1h/10h", "liveness=0s/1h/1/1", "grace=5s", "stop-takes=2h", "late-news=yes", "0s runs")
		w.state.Lasting.Backoff = BackoffState{Active: true, Delay: time.Hour} // no start of ours hides what comes late
		if ending.ours {
			w.goesOn("9s restart-asked") // as a probe would: it draws its answer at once
			w.state.Request.Cause, w.state.Action.Stopping = ByLiveness, ByLiveness
		}
		deliver(w, ending.news, ending.ours, rand.New(rand.NewPCG(seed, 1)))
		if got := w.state.Ending.By; got != ending.want {
			t.Errorf("%s: ended by %d, want %d: %+v", ending.name, got, ending.want, w.state.Ending)
		}
	})
}

// deliver lets the run end and tells the news of it in some order.
func deliver(w *world, all []news, ours bool, r *rand.Rand) {
	end := all[len(all)-1].at
	for _, n := range all {
		if n.kind == Died {
			end = n.at
		}
	}
	w.now = w.begin.Add(end + time.Second)
	w.c.State, w.c.ExitCode, w.c.FinishedAt = runtime.Exited, 137, w.begin.Add(end)
	tell := func(n news) {
		w.now = w.now.Add(time.Duration(r.IntN(300)) * time.Millisecond)
		w.step("", &Input{Kind: n.kind, Signal: n.signal, Time: w.begin.Add(n.at), ExitCode: 137})
	}
	lookedUp := -1 // a signal that was lost, and is told last
	if signals := signalsOf(all); len(signals) > 0 && r.IntN(3) == 0 {
		lookedUp = signals[r.IntN(len(signals))]
	}
	seen, returned := false, !ours
	others := func() {
		if !seen && r.IntN(3) == 0 {
			seen = true
			w.step("", &Input{Kind: Observed})
		}
		if !returned && r.IntN(3) == 0 {
			returned, seen = true, true
			w.step("", &Input{Kind: CallReturned, Call: StopCall})
		}
	}
	for i, n := range all {
		others()
		if i != lookedUp {
			tell(n)
		}
		if r.IntN(4) == 0 { // a reconnect: the stream begins again somewhere
			for j := r.IntN(i + 1); j <= i; j++ {
				if j != lookedUp {
					tell(all[j])
				}
			}
		}
	}
	if lookedUp >= 0 {
		others()
		tell(all[lookedUp])
	}
	for !seen || !returned {
		others()
	}
}

func signalsOf(all []news) []int {
	var at []int
	for i, n := range all {
		if n.kind == Signalled {
			at = append(at, i)
		}
	}
	return at
}
