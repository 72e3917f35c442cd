package core

// Cause says why healthd stops or starts a container.
type Cause uint8

// The causes. They index Lasting.Restarts. The journal keeps them by number, so new ones
// come last.
const (
	NoCause     Cause = iota
	ByLiveness        // its liveness probe failed
	ByStartup         // its startup probe failed
	ByExit            // it ended by itself, or with its engine
	ByOperator        // an operator asked healthd to restart it
	ByPostStart       // its post_start hook failed
	ByNetwork         // the container whose network it shares has a new run
	numCauses
)

// String returns the label value used in metrics.
func (c Cause) String() string {
	return [...]string{"", "liveness", "startup", "exit", "operator", "post_start", "network"}[c]
}

// ByProbe says that a failed probe or post_start hook is the cause. Groups and the host's
// restart budget limit only these restarts.
func (c Cause) ByProbe() bool { return c == ByLiveness || c == ByStartup || c == ByPostStart }

// causeOf returns why healthd restarts a container whose probe failed. Nothing restarts it
// for readiness.
func causeOf(probe ProbeType) Cause {
	switch probe {
	case Startup:
		return ByStartup
	case Liveness:
		return ByLiveness
	}
	return NoCause
}

// failureOf returns what failed, for people. cause is one of ByProbe.
func failureOf(cause Cause) string {
	switch cause {
	case ByStartup:
		return "startup probe"
	case ByLiveness:
		return "liveness probe"
	case ByPostStart:
		return "its post_start hook"
	}
	return cause.String()
}
