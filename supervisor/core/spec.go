package core

import (
	"time"

	"healthd/prober"
)

// ProbeType is one of the three probes. It indexes arrays.
type ProbeType uint8

// The three probes, in the order in which they matter.
const (
	Startup ProbeType = iota
	Liveness
	Readiness
	NumProbes = 3
)

// String returns the name used in configuration and status.
func (t ProbeType) String() string { return [...]string{"startup", "liveness", "readiness"}[t] }

// Title returns the name used in events and metrics, as the kubelet writes it.
func (t ProbeType) Title() string { return [...]string{"Startup", "Liveness", "Readiness"}[t] }

// RestartPolicy says which ends of a container are followed by a start.
type RestartPolicy string

// The restart policies of Kubernetes.
const (
	Always    RestartPolicy = "Always"
	OnFailure RestartPolicy = "OnFailure"
	Never     RestartPolicy = "Never"
)

// Spec is how one container is to be supervised: plain data, complete (defaults
// filled in, port names resolved) and never changed after it was made.
type Spec struct {
	Name          string // of the [[spec]]; empty when labels alone made it
	MatchedBy     string // why this spec is the container's, for people
	RestartPolicy RestartPolicy
	// RestartRules are looked at before RestartPolicy when a run has ended: if one
	// applies, a start follows.
	RestartRules []RestartRule
	// TerminationGracePeriod is the time between the stop signal and the kill;
	// zero means the container's own stop timeout, else DefaultGrace.
	TerminationGracePeriod time.Duration
	Probes                 [NumProbes]*ProbeSpec // nil where there is none
	ReadinessGates         []string              // conditions that must be True besides the probe
	Lifecycle              Lifecycle
	Backoff                Backoff
	Publish                Publish
	Group                  Group
	Values                 []Value // what was set or defaulted, and where
}

// ProbeSpec is one probe with its timing and thresholds.
type ProbeSpec struct {
	Handler          prober.Handler
	InitialDelay     time.Duration // from the start of the run to the first probe
	Period           time.Duration
	Timeout          time.Duration
	SuccessThreshold int
	FailureThreshold int
	// TerminationGracePeriod replaces the spec's when this probe's failure stops
	// the container; zero means that it does not. Never set on readiness.
	TerminationGracePeriod time.Duration
}

// RestartRule says that an exit code is followed by a start, or is not one of
// those that are: its only action is Restart. (Kubernetes restartPolicyRules)
type RestartRule struct {
	Operator  RuleOperator
	ExitCodes []int
}

// RuleOperator says how a RestartRule compares.
type RuleOperator string

// The operators of Kubernetes.
const (
	In    RuleOperator = "In"
	NotIn RuleOperator = "NotIn"
)

// Lifecycle has the hooks, nil where there is none.
type Lifecycle struct {
	// PostStart runs when a run has begun; nothing is probed and the container is
	// not ready before it has ended. When it fails the run is stopped.
	PostStart *prober.LifecycleHandler
	// PreStop runs before healthd stops a run, within the grace period. Its failure
	// is an event, no more.
	PreStop *prober.LifecycleHandler
}

// Backoff says how long a container that ended waits for its next start: nothing,
// Initial, then twice as long each time up to Max; forgotten after a run that
// lasted longer than ResetAfter.
type Backoff struct {
	Initial    time.Duration
	Max        time.Duration
	ResetAfter time.Duration
}

// Publish says under which service the container's readiness is published.
type Publish struct {
	Service string
	Port    int           // that traffic goes to; 0 when not given
	Drain   time.Duration // at most, between withdrawing readiness and stopping
	HAProxy HAProxy
}

// HAProxy says where in HAProxy the container is a server.
type HAProxy struct {
	Backend string // empty: nowhere
}

// Group says with whom the container shares the right to be restarted because of a
// probe.
type Group struct {
	Name           string // empty: its compose project and service, else itself alone
	MaxUnavailable Share  // of its members that may be down at once for that; zero: 1
}

// Share is a number of members, or a percentage of them.
type Share struct{ Number, Percent int }

// Of returns how many of so many members that is: at least one, as nothing could
// ever be restarted otherwise; of a percentage the whole part. (Kubernetes
// maxUnavailable)
func (s Share) Of(members int) int {
	if s.Percent > 0 {
		return max(1, members*s.Percent/100)
	}
	return max(1, s.Number)
}

// Guard limits the restarts of the whole host that probes ask for.
type Guard struct {
	MaxRestarts int // within Window; 0: no limit
	Window      time.Duration
}

// Value is one setting of a Spec with its origin, for people.
type Value struct {
	Path   string // as in TOML below [[spec]]: "liveness.period"
	Value  string // as TOML would write it; header values are not shown
	Origin string // "FILE:LINE", "label healthd.liveness.period", "default"
}

// Defaults of a spec, the kubelet's where it has them.
const (
	DefaultPeriod           = 10 * time.Second
	DefaultTimeout          = time.Second
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
	DefaultGrace            = 30 * time.Second
	MinGrace                = 2 * time.Second // always left for the stop signal
	DefaultBackoffInitial   = 10 * time.Second
	DefaultBackoffMax       = 5 * time.Minute
	DefaultBackoffReset     = 10 * time.Minute
	MinPeriod               = 100 * time.Millisecond
	MinTimeout              = 10 * time.Millisecond
	DefaultMaxUnavailable   = 1
	DefaultGuardRestarts    = 10
	DefaultGuardWindow      = time.Minute
	DefaultPushDrain        = time.Second // where HAProxy is told, and says when it is over
)

// TimeToReady is what a run may need at most to become ready.
func (spec *Spec) TimeToReady() time.Duration {
	var sum time.Duration
	if p := spec.Probes[Startup]; p != nil {
		sum += p.InitialDelay + times(p.FailureThreshold, p.Period) + p.Timeout
	}
	if p := spec.Probes[Readiness]; p != nil {
		sum += p.InitialDelay + times(p.SuccessThreshold, p.Period) + p.Timeout
	}
	if spec.Lifecycle.PostStart != nil {
		sum += PostStartTimeout
	}
	return sum
}

// times is n·d, but not so much that it overflows.
func times(n int, d time.Duration) time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	if n > 0 && d > most/time.Duration(n) {
		return most
	}
	return time.Duration(n) * d
}
