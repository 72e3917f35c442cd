package core

import "time"

// Event is one entry of the history: something changed, for a reason.
type Event struct {
	Time      time.Time `json:"time"`
	Container string    `json:"container"` // name; empty when it concerns a whole runtime
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`

	// An event that stands for several has how many, Time is of the newest. Else Count is 0.
	Count int       `json:"count,omitzero"`
	First time.Time `json:"first,omitzero"`

	// Number is its place in the history, for readers that follow it; else 0.
	Number uint64 `json:"-"`

	// What the log has beside the text; empty where it does not apply.
	Runtime string `json:"-"`
	Service string `json:"-"`
	Probe   string `json:"-"` // startup, liveness or readiness

	// Detected is set on the Unhealthy event that is a probe's verdict: how long it took from the begin of the first
	// of these failed probes. Of a readiness probe only if the container was ready by it before.
	Detected time.Duration `json:"-"`
}

// The reasons of events, Kubernetes' where it has one.
const (
	EventUnhealthy       = "Unhealthy"
	EventProbeWarning    = "ProbeWarning"
	EventProbeLate       = "ProbeLate"
	EventKilling         = "Killing"
	EventBackOff         = "BackOff"
	EventStarted         = "Started"
	EventReady           = "Ready"
	EventNotReady        = "NotReady"
	EventExited          = "Exited"
	EventOOMKilled       = "OOMKilled"
	EventOperatorStopped = "OperatorStopped"
	EventEngineGaveUp    = "EngineGaveUp"
	EventEngineRefused   = "EngineRefused" // it, or a proxy before it, does not allow a stop or start
	EventInvalid         = "Invalid"
	EventRuntimeLost     = "RuntimeLost"
	EventRuntimeBack     = "RuntimeBack"

	EventNetworkLost = "NetworkLost"
	EventHeld        = "Held"
	EventResumed     = "Resumed"

	EventFailedPostStartHook   = "FailedPostStartHook"
	EventFailedPreStopHook     = "FailedPreStopHook"
	EventLifecycleHTTPFallback = "LifecycleHTTPFallback"

	EventReloaded     = "Reloaded"     // the configuration was read again
	EventReloadFailed = "ReloadFailed" // it was wrong, and nothing changed
	EventWouldRestart = "WouldRestart" // what healthd would do if it did not only observe

	EventGaveUp = "GaveUp"

	EventRecorderFailed = "RecorderFailed" // flight records cannot be kept, or not all
	EventNotifyFailed   = "NotifyFailed"   // a receiver of notifications cannot be told
	EventNotifyBack     = "NotifyBack"     // it can again
	EventFileFailed     = "FileFailed"     // a published file is not what it should be, or its reader may not know it
	EventFileBack       = "FileBack"       // it is again

	EventFleetLost     = "FleetLost" // the fleet's store cannot be reached: what was known last goes on being served
	EventFleetBack     = "FleetBack" // it can again, or what FleetError told of is well
	EventFleetHostLost = "FleetHostLost"
	EventFleetHostBack = "FleetHostBack"
	EventFleetError    = "FleetError" // the store, or what is in it, is not as it should be

	EventShutdownIncomplete = "ShutdownIncomplete" // healthd leaves stops or starts to the next daemon
)
