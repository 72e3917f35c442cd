package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Cause says why a container was or is to be stopped by us, or started.
type Cause uint8

// The causes. They index RestartCounts, and are written to the journal by number.
const (
	NoCause       Cause = iota
	ByLiveness          // its liveness probe failed
	ByStartup           // its startup probe failed
	ByExit              // it ended by itself
	ByOperator          // somebody asked healthd to restart it
	ByPostStart         // its post_start hook failed
	ByNetwork           // the container whose network it shares has a new run
	numberOfCause = 7
)

// String returns the label value used in metrics.
func (c Cause) String() string {
	return [...]string{"", "liveness", "startup", "exit", "operator", "post_start", "network"}[c]
}

// asked says that a probe or hook asked for it, whose wish is limited by groups and
// the host's budget.
func (c Cause) ByProbe() bool { return c == ByLiveness || c == ByStartup || c == ByPostStart }

// Call is a request to the engine that is under way for a container. There is at
// most one.
type Call uint8

// The calls.
const (
	NoCall Call = iota
	StopCall
	StartCall
)

// Exit is how a run ended.
type Exit struct {
	Code       int
	Reason     string // Completed, Error, OOMKilled, StoppedByOperator, LivenessFailed, StartupFailed
	StartedAt  time.Time
	FinishedAt time.Time
}

// The reasons of an Exit.
const (
	ReasonCompleted         = "Completed"
	ReasonError             = "Error"
	ReasonOOMKilled         = "OOMKilled"
	ReasonStoppedByOperator = "StoppedByOperator"
	ReasonLivenessFailed    = "LivenessFailed"
	ReasonStartupFailed     = "StartupFailed"
)

// State is all that the supervisor remembers of one container. step makes the
// next one from it; nothing else does.
type State struct {
	// What the engine said last.
	Engine    runtime.State
	Run       runtime.Run // the present run, or the last one
	RunBefore runtime.Run // the one before; zero: none seen
	BeganAt   time.Time   // start of Run by our own clock
	StartedAt time.Time   // start of Run as the engine told it
	AliveAt   time.Time   // when Run was last known to be alive
	Exit      Exit        // end of Run, while it has ended
	LastExit  Exit        // end of the run before; zero FinishedAt: none

	// What the probes say of Run.
	Started   bool // the post_start hook and the startup probe are done with
	StartedCh time.Time
	// ContainerReady is what the container itself is, Ready what is published: that
	// and all readiness gates.
	ContainerReady   bool
	ContainerReadyCh time.Time
	Ready            bool
	ReadyCh          time.Time
	Tallies          [NumProbes]Tally
	Gates            []Gate // those ever set; never changed in place

	// What is being done to it.
	Hooks       [numHooks]HookState
	HookAt      time.Time     // start of PreStop, or earliest one of PostStart
	Grace       time.Duration // left for the stop signal of the present stop
	Condemned   Cause         // a probe or hook wants Run stopped, which has to wait
	Wait        Wait          // why Condemned has to wait
	Stopping    Cause         // why we are stopping, or have stopped, Run; until the next run
	Call        Call          // under way
	CallMade    bool          // a stop: it is noted and on its way, so its signal may come
	CallCause   Cause         // of a stop
	CallRun     runtime.Run   // newest when it was made
	StopCalls   int           // made for Run by the present stop
	OwnKills    int           // stop signals of these calls that the engine reported
	KillDue     time.Time     // engine's time from which KILL is of these calls
	NotBefore   time.Time     // of the next call: end of the drain or of the back-off
	Restart     Cause         // Run has ended and a start is due at NotBefore
	Backoff     BackoffState
	Restarts    [numberOfCause]int // by cause, by us or for an exit by the engine
	NetworkAway bool               // the container whose network it shares does not run
	NetworkLost bool               // or is gone
	Resources   string             // as of the last inspection
	CallError   string             // why the last call failed; empty after a good one

	HTTPFallbacks uint64 // hooks that were asked again without TLS, over all runs

	// What others want.
	Held            bool      // nothing is restarted
	HeldUntil       time.Time // zero: until somebody resumes it
	KilledAt        time.Time // engine's time at which somebody else sent Run a signal that stops
	KilledBy        int       // which signal that was
	Overtaken       Cause     // why healthd was stopping Run then
	KilledLast      time.Time // of the newest such signal, perhaps to a run that is not seen yet
	KillForgotten   time.Time // when Run, if it still lives, is taken to have survived that
	LookAt          time.Time // when the engine is asked, or asked again, whether it does
	Overruled       bool      // somebody has asked for a restart since: what is left of that stop says nothing
	Survived        bool      // and it did, once
	OperatorStopped bool      // it ended of that: stays so until somebody starts it
	Doubtful        bool      // that may have been the engine itself, ending
	DoubtAt         time.Time // since then
	AskAt           time.Time // when the engine is asked, or asked again, whether it takes connections

	DiedCode int  // exit code that an event told for Run, ahead of the inspection
	Died     bool // no inspection came since that event

	Lost         bool // the runtime cannot be heard
	ShuttingDown bool
	LastRun      bool // Run began during the shutdown: if it crashes, that is how healthd leaves it
	LeftOver     bool // healthd ends, and leaves the start to the next daemon
}

// InvalidState is the state of a container that is shown but not supervised, because
// its labels are wrong. lost says that its runtime cannot be heard.
func InvalidState(c *runtime.Container, lost bool) State {
	s := State{Engine: c.State, Run: c.Run(), StartedAt: c.StartedAt, Lost: lost}
	if !c.State.Alive() {
		s.Exit = exitOf(c)
	}
	return s
}

// RestartCount is how often the container was started again after its first run.
func (s *State) RestartCount() int {
	n := 0
	for _, k := range s.Restarts {
		n += k
	}
	return n
}

// Draining says that the container still runs but is about to be stopped, by us or
// by somebody else, and takes no new work.
func (s *State) Draining() bool {
	return s.Engine.Alive() && (s.Stopping != NoCause || !s.KilledAt.IsZero())
}

// frozen says that a stop which is due does not come, as somebody has paused the
// container and wants it as it is; unless somebody has asked for the restart, too.
func (s *State) frozen() bool {
	return s.Engine == runtime.Paused && s.StopCalls == 0 && s.Stopping != ByOperator
}

// settled says that no stop or start is under way or due.
func (s *State) Settled() bool {
	if s.Engine.Alive() {
		return s.Call == NoCall && s.Stopping == NoCause
	}
	return s.Call == NoCall && (s.Restart == NoCause || s.LeftOver || s.heldBack())
}

// containerReady is the rule of readiness, gates apart: everything else first.
func (s *State) containerReady() bool {
	return s.Engine == runtime.Running && !s.Died && s.Started && !s.Draining() &&
		s.Tallies[Readiness].Result == prober.Success
}

// Tally is what one probe has said of the present run so far.
type Tally struct {
	Result  prober.Outcome // the verdict: what thresholds made of the outcomes
	Outcome prober.Outcome // of the last probe that counted
	Length  int            // how many times in a row Outcome came
	OnHold  bool           // a verdict was given; no more probes until a new run
	Last    prober.Result  // of the last probe, counted or not
	LastAt  time.Time      // end of the last probe; zero: none yet

	Due    time.Time // of the next probe; zero: none planned
	Asking bool      // a probe is under way

	Counts  [3]uint64 // by prober.Outcome, over all runs
	Latency Histogram // of successes, over all runs
}

// LatencyBuckets are the upper bounds, in seconds, of a Histogram's buckets:
// Prometheus' defaults, which the kubelet uses for the same metric.
var LatencyBuckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Histogram counts durations by LatencyBuckets; the last count is of those above
// all bounds.
type Histogram struct {
	Counts [len(LatencyBuckets) + 1]uint64
	Sum    float64 // seconds
}

func (h *Histogram) observe(d time.Duration) {
	seconds := d.Seconds()
	i := 0
	for i < len(LatencyBuckets) && seconds > LatencyBuckets[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += seconds
}
