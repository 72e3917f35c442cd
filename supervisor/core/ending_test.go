package core

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"healthd/runtime"
)

// The rows of the table in Ending's doc comment and in docs/semantics.md.
func TestWhoEndedTheRun(t *testing.T) {
	const ownStop = "liveness=0s/10s/1/1 grace=5s"
	// survivor survives an operator's signal. healthd stops it at 40s, and it ends at 41s.
	survivor := func(more ...string) []string {
		return append([]string{ownStop, "stop-takes=1s", "0s runs", "10s signalled 15", "35s liveness fails"}, more...)
	}
	at := func(sim *simulation, d time.Duration) time.Time { return sim.start.Add(d) }
	for _, tt := range []struct {
		evidence string
		story    []string
		more     func(*simulation)
		want     Ender
		starts   bool // healthd starts it again
	}{
		{"none", []string{"0s runs", "10s exits 1"}, nil, EndedByItself, true},
		{"a signal told before the start of the run", []string{"0s runs", "10s old-signal 15", "11s exits 1"}, nil, EndedByItself, true},
		{"a signal that stops nothing", []string{"0s runs", "10s signalled 1", "11s exits 1"}, nil, EndedByItself, true},
		{"a stop signal that the run survives", []string{"0s runs", "10s signalled 15", "60s exits 1"}, nil, EndedByItself, true},
		{"a stop signal that the run survived, told again", []string{"0s runs", "10s signalled 15", "70s"}, func(sim *simulation) {
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: at(sim, 10*time.Second)})
			sim.play("75s exits 1")
		}, EndedByItself, true},
		{"a stop signal", []string{"0s runs", "10s signalled 15", "15s exits 143"}, nil, EndedByOperator, false},
		{"a stop signal, told late", []string{"0s runs", "1s exits 1", "2s exits 143"}, func(sim *simulation) {
			sim.advanceTo(at(sim, 4*time.Second))
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: at(sim, 1900*time.Millisecond)})
		}, EndedByOperator, false},
		{"a stop signal, told late, under Never", []string{"policy=Never", "0s runs", "2s exits 143"}, func(sim *simulation) {
			sim.advanceTo(at(sim, 4*time.Second))
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: at(sim, 1900*time.Millisecond)})
		}, EndedByOperator, false},
		{"a signal told after the start of a newer run", []string{"backoff=1m/1m/10m", "0s runs", "1s exits 1", "2s exits 1"}, func(sim *simulation) {
			sim.advanceTo(at(sim, 5*time.Second))
			sim.startRun() // by somebody else
			sim.step("", sim.signalled(15))
			sim.step("", &Input{Kind: Observed})
			sim.play("6s exits 143")
		}, EndedByOperator, false},
		{"a stop signal, and the container's own stop timeout is longer than the spec's grace period", []string{ownStop, "container-grace=2m", "0s runs", "6s signalled 15", "6s liveness fails", "126s signalled 9", "126s exits 137"}, nil, EndedByOperator, false},
		{"a stop signal, and the engine's default is longer than the spec's grace period", []string{"grace=2s", "0s runs", "10s signalled 15", "28s exits 1"}, nil, EndedByOperator, false},
		{"a stop signal, and the spec's grace period is longer than the container's own stop timeout", []string{"container-grace=2s grace=1m", "0s runs", "10s signalled 15", "75s exits 1"}, nil, EndedByOperator, false},
		{"a stop signal that the run survives, and a stop request carried out at its end", []string{"grace=2s", "0s runs", "10s signalled 15", "60s exits 1", "60.1s stop-event"}, nil, EndedByOperator, false},
		{"a stop signal while healthd's stop call is repeated", []string{ownStop, "container-grace=2m stop-takes=1s", "0s runs", "5s liveness fails", "6s stop-fails yes", "12s signalled 15", "13s stop-fails no", "100s exits 143"}, nil, EndedByOperator, false},
		{"a stop request carried out", []string{"0s runs", "10s stop-event", "11s exits 143"}, nil, EndedByOperator, false},
		{"a stop request carried out, and the run lives on", []string{"0s runs", "10s stop-event", "60s exits 1"}, nil, EndedByItself, true},
		{"a stop request carried out, told after the end", []string{"0s runs", "1s exits 1", "2s exits 143", "3s stop-event"}, nil, EndedByOperator, false},
		{"healthd's stop", []string{ownStop, "0s runs", "5s liveness fails", "10.1s"}, nil, EndedByHealthd, true},
		{"healthd's stop, and then an operator's, during the back-off", []string{"backoff=1m/1m/10m", "liveness=0s/10s/1/1", "0s runs", "1s exits 1", "10.1s", "30s liveness fails", "41s"}, func(sim *simulation) {
			in := sim.event(StopCarriedOut)
			in.ByOthers = true
			sim.step("", in)
			sim.play("5m")
		}, EndedByOperator, false},
		{"healthd's stop and its KILL", []string{ownStop, "stop-takes=6s", "0s runs", "5s liveness fails", "15s signalled 9", "16.5s"}, nil, EndedByHealthd, true},
		{"healthd's KILL, of the stop of the daemon before", []string{ownStop, "stop-takes=1h", "0s runs", "5s liveness fails", "12s daemon-killed", "14900ms"}, func(sim *simulation) {
			sim.advanceTo(at(sim, 15*time.Second))
			in := sim.signalled(9)
			in.Late = true
			sim.step("", in)
			sim.play("15100ms exits 137")
		}, EndedByHealthd, true},
		{"healthd's stop, of which a daemon that shut down did not know the outcome", []string{
			ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "11s shutdown",
		}, func(sim *simulation) {
			sim.step("", &Input{Kind: CallReturned, Call: StopCall, Err: OutcomeUnknown{errors.New("connection reset")}})
			if !sim.state.Settled() {
				t.Errorf("healthd could not end: %+v", sim.state)
			}
			sim.restartDaemon("", false)
			sim.step("", sim.signalled(15))
			sim.endRun(143)
			sim.step("", &Input{Kind: Observed})
		}, EndedByHealthd, true},
		{"the same, and the engine did not allow to try again", []string{
			ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "11s",
		}, func(sim *simulation) {
			sim.step("", &Input{Kind: CallReturned, Call: StopCall, Err: OutcomeUnknown{errors.New("connection reset")}})
			sim.play("22s shutdown")
			sim.step("", &Input{Kind: CallReturned, Call: StopCall, Err: runtime.Refusal("403 Forbidden")})
			if !sim.state.Settled() {
				t.Errorf("healthd could not end: %+v", sim.state)
			}
			sim.restartDaemon("", false)
			sim.step("", sim.signalled(15))
			sim.endRun(143)
			sim.step("", &Input{Kind: Observed})
		}, EndedByHealthd, true},
		{"healthd's stop, its news late", []string{ownStop, "late-news=yes", "0s runs", "5s liveness fails", "10.1s"}, nil, EndedByHealthd, true},
		{"healthd's stop, and a KILL before its grace is over", []string{ownStop, "stop-takes=4s", "0s runs", "5s liveness fails", "12s signalled 9", "20s"}, nil, EndedByOperator, false},
		{"healthd's stop, and a second stop signal", []string{ownStop, "stop-takes=4s", "0s runs", "5s liveness fails", "12s signalled 15", "20s"}, nil, EndedByOperator, false},
		{"a stop signal while healthd drains", []string{ownStop, "drain=30s", "0s runs", "5s liveness fails", "12s signalled 15", "13s exits 143"}, nil, EndedByOperator, false},
		{"healthd's KILL, its stop signal told late", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "15s signalled 9"}, func(sim *simulation) {
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: at(sim, 10*time.Second)})
		}, EndedByHealthd, true},
		{"healthd's KILL, its stop signal lost", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "10.1s"}, func(sim *simulation) {
			sim.advanceTo(sim.now.Add(4950 * time.Millisecond))
			sim.step("", sim.signalled(9))
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"the same, and its clock was set back before a look-up tells the stop signal", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "10.1s"}, func(sim *simulation) {
			sent := sim.engineNow()
			sim.advanceTo(sim.now.Add(4950 * time.Millisecond))
			sim.clockOffset -= time.Second
			sim.step("", sim.signalled(9))
			in := sim.signalled(15)
			in.Time, in.Late = sent, true
			sim.step("", in)
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"healthd's KILL, and its clock was set back before a look-up tells both signals", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "10.1s"}, func(sim *simulation) {
			in := sim.signalled(15)
			in.Late = true
			sim.advanceTo(sim.now.Add(4950 * time.Millisecond))
			sim.clockOffset -= time.Second
			sim.step("", in)
			sim.step("", sim.signalled(9))
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"a KILL before healthd's grace is over, its stop signal lost", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "10.1s"}, func(sim *simulation) {
			sim.advanceTo(sim.now.Add(3 * time.Second))
			sim.step("", sim.signalled(9))
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByOperator, false},
		{"the same, told when the grace is over", []string{ownStop, "late-news=yes", "stop-takes=1h", "0s runs", "5s liveness fails", "10.1s"}, func(sim *simulation) {
			in := sim.signalled(9)
			in.Late = true
			sim.advanceTo(sim.now.Add(4950 * time.Millisecond))
			sim.step("", in)
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByOperator, false},
		{"an operator's stop of the next run, while the call for the run before has not returned", []string{ownStop, "drain=0s", "stop-takes=1h", "late-news=yes", "0s runs", "5s liveness fails", "10s liveness succeeds"}, func(sim *simulation) {
			sim.step("", sim.signalled(15)) // healthd's
			sim.endRun(143)
			sim.step("", &Input{Kind: Observed})
			sim.startRun() // by the operator
			sim.step("", &Input{Kind: Observed})
			sim.now = sim.now.Add(time.Second)
			sim.step("", sim.signalled(15))
			sim.endRun(143)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByOperator, false},
		{"healthd's stop of a run that survived a signal", survivor("41.1s stop-event", "43.5s"), nil, EndedByHealthd, true},
		{"the same, and the engine carried out a stop more than healthd's", survivor("41.1s stop-event", "41.2s stop-event", "43.5s"), nil, EndedByOperator, false},
		{"the same, told before an inspection shows the end", survivor("40.1s stop-event", "40.2s stop-event", "43.5s"), nil, EndedByOperator, false},
		{"the same, and the engine shuts down", survivor("40.5s engine-ends", "41.1s stop-event", "41.2s stop-event", "42s engine-restarts"), nil, EndedByEngine, true},
		{"a stop more than healthd's, which called twice", survivor("39s stop-fails yes", "42s stop-fails no", "52.1s stop-event", "52.2s stop-event", "54.5s"), nil, EndedByHealthd, true},
		{"a stop more than healthd's, which gave one up", survivor("39s stop-fails yes", "42s signalled 15", "43s stop-fails no", "63.1s stop-event", "63.2s stop-event", "65.5s"), nil, EndedByHealthd, true},
		{"healthd's stop of a run that survived a signal, told again", survivor("41.1s"), func(sim *simulation) {
			for range 3 {
				sim.step("", &Input{Kind: StopCarriedOut, Time: at(sim, 41*time.Second)})
			}
			sim.play("43.5s")
		}, EndedByHealthd, true},
		{"a stop more than the one that an operator asked healthd for", survivor("40.5s restart-asked", "40.6s stop-event", "40.7s stop-event", "41.5s"), nil, EndedByHealthd, true},
		{"healthd's late stop hits the next run", []string{ownStop, "drain=0s", "stop-takes=1h", "late-news=yes", "0s runs", "5s liveness fails", "10s liveness succeeds", "11s exits 1", "12s runs"}, func(sim *simulation) {
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: sim.now.Add(time.Millisecond)})
			sim.endRun(143)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"the same, and its KILL after a grace that pre_stop has shortened", []string{"liveness=0s/10s/1/1 grace=10s pre-stop=6s", "drain=0s", "stop-takes=1h", "late-news=yes", "0s runs", "5s liveness fails", "11s liveness succeeds", "17s exits 1", "18s runs"}, func(sim *simulation) {
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: sim.now.Add(time.Millisecond)})
			sim.advanceTo(sim.now.Add(4100 * time.Millisecond))
			sim.step("", sim.signalled(9))
			sim.endRun(137)
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}, EndedByHealthd, true},
		{"a KILL of a stop that healthd restart has overruled", []string{"stop-takes=1s", "0s runs", "10s signalled 15", "11s restart-asked", "11.5s signalled 9", "12.1s"}, nil, EndedByHealthd, true},
		{"the engine shuts down", []string{"0s runs", "10s engine-ends", "10s signalled 15", "11s exits 143", "20s engine-restarts"}, nil, EndedByEngine, true},
		{"the engine shuts down, but accepted a connection before", []string{"0s runs", "10s signalled 15", "11s exits 143", "20s engine-ends", "21s engine-restarts"}, nil, EndedByOperator, false},
		{"the engine restarts", []string{"0s runs", "10s engine-restarts"}, nil, EndedByEngine, true},
		{"the engine restarts before an inspection shows the end that it told", []string{"0s runs", "1s exits 1", "2s"}, func(sim *simulation) {
			sim.startRun() // by somebody else
			sim.step("", &Input{Kind: Observed})
			sim.step("", sim.died(0))
			sim.endRun(0)
			sim.step("", &Input{Kind: EngineRestarted, Early: true})
			sim.step("", &Input{Kind: Observed})
			sim.step("", &Input{Kind: RuntimeBack})
		}, EndedByItself, true},
		{"the engine sent the signal at its start", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			life := EngineLife{Restarted: true, Kills: true}
			sim.step("", &Input{Kind: EngineRestarted, Early: true})
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: at(sim, 11*time.Second), Life: life})
			sim.step("", &Input{Kind: Died, Time: at(sim, 11*time.Second), ExitCode: 143, Life: life})
			sim.endRun(143)
			sim.step("", &Input{Kind: Observed})
			sim.step("", &Input{Kind: RuntimeBack})
		}, EndedByEngine, true},
		{"the restarted engine tells the end of a new run", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.step("", &Input{Kind: EngineRestarted, Early: true})
			in := sim.died(1)
			in.Life = EngineLife{Restarted: true, Kills: true}
			sim.step("", in)
			sim.endRun(1)
			sim.step("", &Input{Kind: Observed})
			sim.step("", &Input{Kind: RuntimeBack})
		}, EndedByItself, true},
		{"the engine killed it at its start, and dropped the news", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.endRun(137)
			sim.returnOfForgetfulEngine(at(sim, 20*time.Second))
		}, EndedByEngine, true},
		{"it ended after its engine's start, and the engine dropped the news", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.endRun(137)
			sim.returnOfForgetfulEngine(at(sim, 5*time.Second))
		}, EndedUnseen, false},
		{"the same, and of its news only the end is left", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.endRun(137)
			began := at(sim, 5*time.Second)
			sim.returnOfForgetfulEngine(began, &Input{Kind: Died, Time: at(sim, 10*time.Second), ExitCode: 137, Life: forgetful(began)})
		}, EndedUnseen, false},
		{"the same, and of its news a stop signal is left", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.endRun(137)
			began := at(sim, 5*time.Second)
			sim.returnOfForgetfulEngine(began, &Input{Kind: Signalled, Signal: 15, Time: at(sim, 10*time.Second), Life: forgetful(began)})
		}, EndedByOperator, false},
		{"the same, and of its news a stop request is left", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.endRun(137)
			began := at(sim, 5*time.Second)
			sim.returnOfForgetfulEngine(began, &Input{Kind: StopCarriedOut, Time: at(sim, 10*time.Second), Life: forgetful(began)})
		}, EndedByOperator, false},
		{"the same, and the engine was about to start it", []string{"engine-policy=always", "0s runs", "10s"}, func(sim *simulation) {
			sim.step("", sim.died(1))
			sim.endRun(1)
			sim.step("", &Input{Kind: EngineRestarted, Early: true})
			sim.step("", &Input{Kind: Observed})
			sim.step("", &Input{Kind: RuntimeBack})
		}, EndedByEngine, true},
		{"a KILL long after a restart that healthd gave up", []string{"0s runs", "5s signalled 15", "6s stop-fails yes", "6500ms restart-asked", "7s shutdown", "30s daemon-killed", "1h signalled 9", "3601s exits 137"}, nil, EndedByOperator, false},
		{"the run ended long before its engine", []string{"0s runs", "10s engine-lost"}, func(sim *simulation) {
			sim.step("", &Input{Kind: EngineRestarted, Early: true})
			sim.endRun(1)
			sim.step("", &Input{Kind: Observed})
			sim.step("", &Input{Kind: EndedBeforeEngine})
			sim.step("", &Input{Kind: RuntimeBack})
		}, EndedUnseen, false},
		{"found ended", []string{"0s found 1m ended"}, nil, EndedUnseen, false},
		{"found ended, and the daemon before had left its stop to the next one", []string{ownStop, "drain=5m", "0s runs", "5s liveness fails", "15s shutdown 30s"}, func(sim *simulation) {
			sim.endRun(143)
			sim.restartDaemon("", true)
		}, EndedUnseen, false},
		{"the same, and its end was watched", []string{ownStop, "drain=5m", "0s runs", "5s liveness fails", "15s shutdown 30s"}, func(sim *simulation) {
			sim.endRun(143)
			sim.restartDaemon("", false)
		}, EndedByHealthd, true},
		{"the same, and it was an operator's restart", []string{ownStop, "drain=5m", "0s runs", "5s restart-asked", "15s shutdown 30s"}, func(sim *simulation) {
			sim.endRun(143)
			sim.restartDaemon("", true)
		}, EndedByHealthd, true},
		{"the same, and the daemon before had sent its stop", []string{ownStop, "stop-takes=1h", "0s runs", "5s liveness fails", "15s shutdown 30s"}, func(sim *simulation) {
			sim.endRun(143)
			sim.restartDaemon("", true)
		}, EndedByHealthd, true},
	} {
		t.Run(tt.evidence, func(t *testing.T) {
			sim := simulate(t, tt.story...)
			before := sim.state.RestartCount()
			if tt.more != nil {
				tt.more(sim)
			}
			starts := sim.state.Action.Restart != NoCause || sim.state.Engine.State.Alive() || sim.state.RestartCount() > before
			by := sim.state.Ending.By
			if sim.state.Engine.State.Alive() { // started again: By is of the new run
				by = sim.enderBefore
			}
			if by != tt.want || starts != tt.starts {
				t.Errorf("ended by %d, starts %v; want %d, %v\n%s", by, starts, tt.want, tt.starts, sim.transcript.String())
			}
		})
	}
}

// forgetful is the life of an engine that began then, killed what still ran, and has dropped
// some of its events.
func forgetful(began time.Time) EngineLife {
	return EngineLife{Restarted: true, Kills: true, Began: began}
}

// returnOfForgetfulEngine is healthd's first connection to such an engine, which tells some
// news.
func (sim *simulation) returnOfForgetfulEngine(began time.Time, told ...*Input) {
	sim.step("", &Input{Kind: EngineRestarted, Early: true})
	for _, in := range told {
		sim.step("", in)
	}
	sim.step("", &Input{Kind: Observed, Life: forgetful(began)})
	sim.step("", &Input{Kind: RuntimeBack})
}

// news is one event that an engine tells about the end of a run.
type toldNews struct {
	kind   InputKind
	signal int
	at     time.Duration // since the start of the run
}

// endings are ends of runs with all the engine's events about them, in its order.
var endings = []struct {
	name string
	own  bool // healthd's stop is under way
	news []toldNews
	want Ender

	survived bool // it survived a stop signal before
}{
	{"crash", false, []toldNews{{Died, 0, 10 * time.Second}}, EndedByItself, false},
	{"docker stop", false, []toldNews{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByOperator, false},
	{"docker stop, with KILL", false, []toldNews{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 20 * time.Second}, {Died, 0, 20 * time.Second}, {StopCarriedOut, 0, 20 * time.Second}}, EndedByOperator, false},
	{"docker stop, its signal lost", false, []toldNews{{Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByOperator, false},
	{"docker kill", false, []toldNews{{Signalled, 9, 10 * time.Second}, {Died, 0, 10 * time.Second}}, EndedByOperator, false},
	{"docker kill --signal HUP, and a crash", false, []toldNews{{Signalled, 1, 9 * time.Second}, {Died, 0, 10 * time.Second}}, EndedByItself, false},
	{"healthd's stop", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByHealthd, false},
	{"healthd's stop, with KILL", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 15 * time.Second}, {Died, 0, 15 * time.Second}, {StopCarriedOut, 0, 15 * time.Second}}, EndedByHealthd, false},
	{"healthd's stop, its signals lost", true, []toldNews{{Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByHealthd, false},
	{"healthd's stop, cut short by docker kill", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Signalled, 9, 12 * time.Second}, {Died, 0, 12 * time.Second}}, EndedByOperator, false},
	{"healthd's stop, joined by docker stop", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Signalled, 15, 12 * time.Second}, {Died, 0, 13 * time.Second}, {StopCarriedOut, 0, 13 * time.Second}}, EndedByOperator, false},
	{"healthd's stop of a run that survived a signal", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}}, EndedByHealthd, true},
	{"the same, joined by the stop that it survived", true, []toldNews{{Signalled, 15, 10 * time.Second}, {Died, 0, 11 * time.Second}, {StopCarriedOut, 0, 11 * time.Second}, {StopCarriedOut, 0, 11*time.Second + 1}}, EndedByOperator, true},
}

// FuzzWhoEndedTheRun delivers the news of an end in orders that engines produce. The event
// stream keeps its own order. An inspection and the return of healthd's call come at any
// time after the end. After a reconnect events come again. A look-up delivers a lost signal
// late. The answer is always the same.
func FuzzWhoEndedTheRun(f *testing.F) {
	for i := range endings {
		f.Add(byte(i), uint64(i))
		f.Add(byte(i), uint64(100+i))
	}
	f.Fuzz(func(t *testing.T, which byte, seed uint64) {
		ending := endings[int(which)%len(endings)]
		sim := newSimulation(t)
		sim.noTranscript = true
		sim.play("backoff=1h/1h/10h", "liveness=0s/1h/1/1", "grace=5s", "stop-takes=2h", "late-news=yes", "0s runs")
		sim.state.Lasting.Backoff = BackoffState{Active: true, Delay: time.Hour} // no start comes before the late news
		sim.state.Ending.Survived = ending.survived
		if ending.own {
			sim.play("9s restart-asked") // begins the stop at once; a probe's failure would begin it at its next period
			sim.state.Request.Cause, sim.state.Action.Stopping = ByLiveness, ByLiveness
		}
		deliver(sim, ending.news, ending.own, rand.New(rand.NewPCG(seed, 1)))
		if got := sim.state.Ending.By; got != ending.want {
			t.Errorf("%s: ended by %d, want %d: %+v", ending.name, got, ending.want, sim.state.Ending)
		}
	})
}

// deliver ends the run and delivers the news of that in a random order.
func deliver(sim *simulation, all []toldNews, own bool, r *rand.Rand) {
	end := all[len(all)-1].at
	for _, n := range all {
		if n.kind == Died {
			end = n.at
		}
	}
	sim.now = sim.start.Add(end + time.Second)
	sim.c.State, sim.c.ExitCode, sim.c.FinishedAt = runtime.Exited, 137, sim.start.Add(end)
	tell := func(n toldNews) {
		sim.now = sim.now.Add(time.Duration(r.IntN(300)) * time.Millisecond)
		sim.step("", &Input{Kind: n.kind, Signal: n.signal, Time: sim.start.Add(n.at), ExitCode: 137})
	}
	lookedUp := -1 // a signal that was lost, and that a look-up delivers last
	if signals := signalsOf(all); len(signals) > 0 && r.IntN(3) == 0 {
		lookedUp = signals[r.IntN(len(signals))]
	}
	seen, returned := false, !own
	others := func() {
		if !seen && r.IntN(3) == 0 {
			seen = true
			sim.step("", &Input{Kind: Observed})
		}
		if !returned && r.IntN(3) == 0 {
			returned, seen = true, true
			sim.step("", &Input{Kind: CallReturned, Call: StopCall})
		}
	}
	for i, n := range all {
		others()
		if i != lookedUp {
			tell(n)
		}
		if r.IntN(4) == 0 { // a reconnect: the stream begins again at an earlier event
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

func signalsOf(all []toldNews) []int {
	var at []int
	for i, n := range all {
		if n.kind == Signalled {
			at = append(at, i)
		}
	}
	return at
}
