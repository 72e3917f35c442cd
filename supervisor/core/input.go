package core

import (
	"errors"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// InputKind says what happened to a container.
type InputKind uint8

const (
	Observed           InputKind = iota + 1 // an inspection of the container: Container, EngineNow, First, Unwatched, Life
	Signalled                               // somebody, perhaps healthd, sent a signal: Signal, Time, Of, Late, Life
	Died                                    // an event told the end of a run: ExitCode, Time, Of, Late, Life
	StopCarriedOut                          // the engine finished a stop or restart request, perhaps healthd's: Time, Of, Late, Life
	ProbeAnswered                           // a probe ended: Probe, Result
	StopSent                                // the journal has the stop, and the call now leaves for the engine
	CallReturned                            // healthd's call to the engine returned: Call, Err, Container (nil: unknown), EngineNow
	HookEnded                               // a hook ended: Hook, HookResult
	GateSet                                 // somebody set a readiness gate: Gate, Status
	FleetHolds                              // which hold all hosts have of the container's service: Hold
	HoldRequested                           // an operator holds the container: Time of the end, zero: until a resume
	ResumeRequested                         // an operator ends all holds
	HoldEnded                               // people no longer hold the container that had taken this one's place
	SpecChanged                             // a reload changed the spec: OldSpec
	RestartRequested                        // an operator asked healthd for a restart
	ConnectionsDrained                      // no load balancer has a request under way to the container
	Withdrawn                               // all load balancers know that the container takes no new requests
	RuntimeLost                             // healthd cannot reach the engine
	RuntimeBack                             // it can again: NotInspected
	EngineAccepts                           // the engine accepted a connection begun at Time: it was not shutting down
	EngineRestarted                         // the engine has restarted
	EndedBeforeEngine                       // and the run had ended long before the engine did
	EngineLivedOn                           // it has restarted, but that has ended no run: this one ended meanwhile
	ShutdownBegun                           // healthd shuts down
	Tick                                    // the time that NextTick named has come
)

// Input is one thing that happened to a container. The kind decides which fields are
// set.
type Input struct {
	Kind         InputKind
	Container    *runtime.Container
	First        bool      // this daemon's first observation
	Unwatched    bool      // nobody watched the engine since the change that it shows
	Signal       int       // number
	EngineNow    time.Time // with a Container or an event: the present time by the engine's clock; zero: as healthd's
	Time         time.Time // of an event by the engine's clock; of HoldRequested, EngineAccepts and ShutdownBegun by healthd's
	ExitCode     int
	ByOthers     bool            // of StopCarriedOut: the stop is certainly not healthd's
	Of           runtime.RunHint // the run that an event belongs to
	Late         bool            // the engine told the event from its history
	Life         EngineLife      // of the engine that tells the event
	NotInspected bool            // the engine lists the container, but inspecting it failed
	Probe        ProbeType
	Result       prober.Result
	Call         Call
	Err          error
	Hook         HookType
	HookResult   prober.HookResult
	Gate         string
	Hold         string // empty: none
	Status       bool
	OldSpec      *Spec
	Early        bool // the observation that shows what followed comes next: decide nothing yet

	// Crowded says that containers of the host crash and start again so often that one which does so
	// soon after its start waits for DefaultBackoffInitial at least, whatever its own back-off is.
	Crowded bool
	// StartsFull says that MaxStarts start calls to the container's engine are under way. When one of those has
	// returned, the container whose start waits the longest needs the input Tick.
	StartsFull bool

	// With every kind for which NeedsGuard says so.
	Wait   Wait   // what a restart for a failed probe has to wait for
	LastUp string // the load balancer's backend of which the container is the last server up; empty: none
}

// EffectKind says what the loop has to do.
type EffectKind uint8

const (
	RunProbe EffectKind = iota + 1
	StopContainer
	StartContainer
	RunHook
	InspectContainer // ask the engine what the container is now
	DialEngine       // ask the engine whether it takes new connections
	RecordEvent
)

// Effect is one thing for the loop to do. The kind decides which fields are set.
type Effect struct {
	Kind    EffectKind
	Probe   ProbeType     // RunProbe
	Late    time.Duration // RunProbe: time since the probe was due
	Grace   time.Duration // StopContainer: grace period; RunHook: time limit
	Hook    HookType      // RunHook
	Reason  string        // RecordEvent
	Message string        // RecordEvent
	About   string        // RecordEvent: the name of the probe that it is about; empty: of none
	// Detected is Event.Detected; RecordEvent only.
	Detected time.Duration
}

// ErrNotSent is the error of a stop call that was not made, because the container had
// already ended, had a new run or was paused, or wraps why the engine did not tell that in time.
// Who ended it comes with the engine's events.
var ErrNotSent = errors.New("the stop was not sent")

// OutcomeUnknown is the error of a call that was made, but whose outcome healthd could
// not ask the engine for.
type OutcomeUnknown struct{ Err error }

func (u OutcomeUnknown) Error() string { return "the outcome is unknown: " + u.Err.Error() }

// Unwrap returns why healthd could not ask.
func (u OutcomeUnknown) Unwrap() error { return u.Err }
