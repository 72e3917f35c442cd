package core

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

// ByProbe says that a probe or hook asked for it, whose wish is limited by groups and
// the host's budget.
func (c Cause) ByProbe() bool { return c == ByLiveness || c == ByStartup || c == ByPostStart }
