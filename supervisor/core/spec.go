package core

import (
	"slices"
	"strconv"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// ProbeType is one of the three probes. It indexes arrays.
type ProbeType uint8

// The three probes.
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

// RestartPolicy says after which exits healthd starts a container again.
type RestartPolicy string

// The restart policies of Kubernetes.
const (
	Always    RestartPolicy = "Always"
	OnFailure RestartPolicy = "OnFailure"
	Never     RestartPolicy = "Never"
)

// FailureAction says what healthd does with a run whose liveness or startup probe fails.
type FailureAction string

// The actions.
const (
	RestartFailed FailureAction = "restart" // by the restart policy
	StopFailed    FailureAction = "stop"    // stop it; it stays stopped until somebody starts it
	TellFailed    FailureAction = "none"    // record it, and nothing else
)

// Spec says how healthd supervises one container. It is complete (with defaults, and with
// port names resolved) and never changes.
type Spec struct {
	Name          string // of the [[spec]]; empty: only labels made it
	MatchedBy     string // why this spec applies to the container; for people
	RestartPolicy RestartPolicy
	// RestartRules come before RestartPolicy: if one matches the exit code, healthd
	// starts the container.
	RestartRules []RestartRule
	OnFailure    FailureAction // empty: RestartFailed
	// Network is the engine's network in which the container is probed and published; empty: where it
	// has several, the one that Container.Network says.
	Network string
	// Observe keeps healthd from stopping and starting the container by itself: it records what it
	// would do. It still finishes a restart that it has begun.
	Observe bool
	// ManagedElsewhere is the orchestrator that made the container and makes the next one; empty: none, or healthd
	// starts the container all the same. healthd never starts it, RestartPolicy is Never, and OnFailure is not
	// RestartFailed.
	ManagedElsewhere string
	// TerminationGracePeriod is the time from the stop signal to the KILL; zero: the
	// container's own stop timeout, else DefaultGrace.
	TerminationGracePeriod time.Duration
	Probes                 [NumProbes]*ProbeSpec // nil: no such probe
	ReadinessGates         []string              // must all be True for the container to be ready
	Lifecycle              Lifecycle
	Recorder               Recorder
	Backoff                Backoff
	GiveUp                 GiveUp
	Publish                Publish
	Group                  Group
	// Values has every setting with its origin, but for the service if no setting names it: see Settings.
	Values        []Value
	ServiceOrigin string // where the service is from if no setting names it
	DrainValue    *Value // Publish.Drain where load balancers need longer than Values say; nil: they do not
}

// Settings returns every setting with its origin.
func (s *Spec) Settings() []Value {
	all := slices.Clip(s.Values)
	if s.DrainValue != nil {
		all = slices.Clone(all)
		i := slices.IndexFunc(all, func(v Value) bool { return v.Path == s.DrainValue.Path })
		all[i] = *s.DrainValue
	}
	if s.ServiceOrigin != "" {
		all = append(all, Value{Path: "publish.service", Value: strconv.Quote(s.Publish.Service), Origin: s.ServiceOrigin})
	}
	return all
}

// ProbeSpec is one probe with its timing and thresholds.
type ProbeSpec struct {
	Handler          prober.Handler
	InitialDelay     time.Duration // from the start of the run to the first probe
	Period           time.Duration // at least MinPeriod
	Timeout          time.Duration // at least MinTimeout
	SuccessThreshold int           // at least 1; exactly 1 for startup and liveness
	FailureThreshold int           // at least 1
	// TerminationGracePeriod replaces the spec's when this probe's failure stops the run;
	// zero: it does not. Always zero for readiness.
	TerminationGracePeriod time.Duration
}

// RestartRule says after which exit codes healthd starts the container. Its only action is
// Restart. (Kubernetes restartPolicyRules)
type RestartRule struct {
	Operator  RuleOperator
	ExitCodes []int
}

// RuleOperator says whether a RestartRule matches its exit codes or all others.
type RuleOperator string

// The operators of Kubernetes.
const (
	In    RuleOperator = "In"
	NotIn RuleOperator = "NotIn"
)

// Lifecycle has the hooks; nil: no such hook.
type Lifecycle struct {
	// PostStart runs at the begin of a run. Before it has succeeded, healthd does not probe
	// the container, and it is not ready. If it fails, healthd stops the run.
	PostStart *prober.LifecycleHandler
	// PreStop runs before healthd's stop signal, within the grace period. If it fails,
	// healthd records an event, and the stop goes on.
	PreStop *prober.LifecycleHandler
}

// Recorder says what a flight record asks inside a container that healthd is about to stop for a
// failure.
type Recorder struct {
	Command []string      // without a shell; empty: nothing is asked
	Timeout time.Duration // what the command, and with it the record, may take; zero without a command
}

// Backoff says how long a start waits after the end of a run: not at all the first time,
// then Initial, then twice as long each time, up to Max. A run longer than ResetAfter
// resets it.
type Backoff struct {
	Initial    time.Duration
	Max        time.Duration
	ResetAfter time.Duration
}

// Publish says how healthd publishes the container's readiness.
type Publish struct {
	Service string        // name of the service: PROJECT/SERVICE, or NAME
	Owned   bool          // a file names the service: NAME is then never short for PROJECT/NAME
	Port    int           // the port that traffic goes to; 0: not given
	Drain   time.Duration // time from withdrawing readiness to the stop; with a HAProxy backend the maximum
	// LeastDrain is the part of Drain that lasts even if HAProxy has no request under way any more: other load
	// balancers may still send new ones.
	LeastDrain time.Duration
	// WithdrawWithin is how long load balancers may need until they know of the withdrawal, such as for a reload.
	// The drain begins when the input Withdrawn tells that they do, and at its end at the latest. Zero: it
	// begins at once.
	WithdrawWithin time.Duration
	HAProxy        HAProxy
	Address        PublishAddress // what other hosts are told; empty: HostAddress
	// HostIP is what balancers on this host are told of a container that uses the host's network; empty: 127.0.0.1.
	HostIP string
}

// Local returns where a balancer on this host reaches the container; without an address, why says why.
func (p *Publish) Local(c *runtime.Container) (address string, port int, why string) {
	address, port, why = c.Local(p.Port, p.Address == ContainerAddress)
	if p.HostIP != "" && c.HostNetwork && address != "" && address == c.Address { // else its engine is elsewhere
		address = p.HostIP
	}
	return address, port, why
}

// PublishAddress says which address of a container those are told who send traffic from other hosts, and of one whose
// engine is elsewhere also those of this host, who are told the container's own of all others. See
// runtime.Container.Advertised and Local.
type PublishAddress string

// The addresses.
const (
	HostAddress      PublishAddress = "host"      // where the engine publishes the container's port
	ContainerAddress PublishAddress = "container" // the container's own, in a network that reaches over hosts
)

// HAProxy says in which backend of HAProxy the container is a server.
type HAProxy struct {
	Backend string // empty: in none
}

// Group limits how many members restarts for failed probes may have down at once.
type Group struct {
	Name           string // empty: see GroupOf
	MaxUnavailable Share  // zero: 1
	Fleet          bool   // the limit is over all hosts of the fleet: scope = "fleet"
	FleetWait      bool   // while etcd cannot be reached nothing is restarted for a failed probe: unreachable = "wait"
}

// Share is a number of members or, if Percent is not 0, a percentage of them.
type Share struct{ Number, Percent int }

// Of returns the share of that many members, rounded down, but at least 1: with 0 healthd
// could never restart any. (Kubernetes maxUnavailable)
func (s Share) Of(members int) int {
	if s.Percent > 0 {
		return max(1, members*s.Percent/100)
	}
	return max(1, s.Number)
}

// Guard limits the restarts for failed probes on the whole host.
type Guard struct {
	MaxRestarts int // within Window; 0: no limit
	Window      time.Duration
	HostSuspect bool // while no network probe of the host has an answer, there is none for a minute
}

// Value is one setting of a Spec with its origin; for people.
type Value struct {
	Path   string // as in TOML below [[spec]]: "liveness.period"
	Value  string // in TOML syntax, without header values
	Origin string // "FILE:LINE", "label healthd.liveness.period", OriginDefault
}

// OriginDefault is the Origin of a Value that nobody has set.
const OriginDefault = "default"

// Defaults and minimums of a spec; the kubelet's where it has them.
const (
	DefaultPeriod           = 10 * time.Second
	DefaultTimeout          = time.Second
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
	DefaultGrace            = 30 * time.Second
	MinGrace                = 2 * time.Second // of the grace period, left for the stop signal
	DefaultBackoffInitial   = 10 * time.Second
	DefaultBackoffMax       = 5 * time.Minute
	DefaultBackoffReset     = 10 * time.Minute
	MinPeriod               = 100 * time.Millisecond
	MinTimeout              = 10 * time.Millisecond
	DefaultMaxUnavailable   = 1
	DefaultGuardRestarts    = 10
	DefaultGuardWindow      = time.Minute
	DefaultRecorderTimeout  = 2 * time.Second
	DefaultPushDrain        = time.Second // with a HAProxy backend, which can end the drain early
)

// TimeToReady returns the longest time that a run may need to become ready.
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

// times returns n·d, at most ten years, so that sums do not overflow.
func times(n int, d time.Duration) time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	if n > 0 && d > most/time.Duration(n) {
		return most
	}
	return time.Duration(n) * d
}
