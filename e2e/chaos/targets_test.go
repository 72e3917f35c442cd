package chaos

import (
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
)

// containerKind is a configuration that several targets share.
type containerKind struct {
	name     string
	members  int
	policy   string // healthd's
	engine   container.RestartPolicyMode
	rm       bool
	group    bool
	ends     bool // it ends all the time, by itself
	exec     bool // it is made sick by a file, and otherwise over HTTP
	probed   bool // by liveness
	deaf     bool // it ignores TERM
	cmd      []string
	settings string // the rest of its spec
}

const (
	chaosReadiness = "[spec.readiness]\nhttp_get = { port = 8080, path = \"/healthz\" }\nperiod = \"500ms\"\ntimeout = \"30s\"\nfailure_threshold = 1\n"
	chaosLiveness  = "[spec.liveness]\nhttp_get = { port = 8080, path = \"/healthz\" }\nperiod = \"700ms\"\ntimeout = \"30s\"\nfailure_threshold = 2\n"
	chaosBoth      = chaosReadiness + chaosLiveness
	chaosBackoff   = 4 * time.Second
)

var chaosKinds = []*containerKind{
	{name: "web", members: 4, probed: true, settings: chaosBoth},
	{name: "drain", members: 3, probed: true, settings: chaosBoth + "[spec.publish]\ndrain = \"1s\"\n"},
	{name: "command", members: 3, probed: true, exec: true,
		cmd:      []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"},
		settings: "[spec.liveness]\nexec = { command = [\"test\", \"!\", \"-e\", \"/dev/shm/sick\"] }\nperiod = \"1s\"\ntimeout = \"30s\"\nfailure_threshold = 1\n"},
	{name: "deaf", members: 3, probed: true, deaf: true, cmd: []string{"/bin/testserver", "-ignore-term"}, settings: chaosBoth},
	{name: "crash", members: 3, ends: true, deaf: true, cmd: []string{"sh", "-c", "sleep 1; exit 1"}},
	{name: "flaky", members: 2, policy: "OnFailure", ends: true, deaf: true, cmd: []string{"sh", "-c", "sleep 2; exit 3"}},
	{name: "job", members: 2, policy: "OnFailure", settings: chaosReadiness},
	{name: "once", members: 2, policy: "Never", settings: chaosReadiness},
	{name: "owned", members: 2, engine: container.RestartPolicyAlways, probed: true, settings: chaosBoth},
	{name: "gone", members: 2, rm: true, settings: chaosReadiness},
	{name: "crowd", members: 3, group: true, probed: true, settings: chaosBoth + "[spec.group]\nname = \"crowd\"\nmax_unavailable = 1\n"},
	{name: "hooked", members: 1, probed: true, settings: chaosBoth +
		"[spec.lifecycle]\npost_start = { exec = { command = [\"true\"] } }\npre_stop = { exec = { command = [\"true\"] } }\n"},
}

var chaosSpecs = func() string {
	var b strings.Builder
	b.WriteString("[guard]\nmax_restarts = 0\n")
	for _, k := range chaosKinds {
		policy := k.policy
		if policy == "" {
			policy = "Always"
		}
		b.WriteString("[[spec]]\nname = \"" + k.name + "\"\nmatch = { e2e = \"" + k.name + "\" }\nrestart_policy = \"" + policy + "\"\n" +
			"termination_grace_period = \"2s\"\n" + k.settings + "[spec.backoff]\ninitial = \"1s\"\nmax = \"4s\"\n")
	}
	return b.String()
}()

// wantedState is the state that the operators want a container in.
type wantedState uint8

const (
	wantedUnclear wantedState = iota // two acts crossed, and either may be the last
	wantedRunning                    // it is to run, and is brought back when it ends
	wantedStopped                    // somebody stopped it
	wantedEnded                      // it has ended, and by its policy or a hold is not started again
	wantedRemoved                    // it was removed
)

func (w wantedState) String() string { return [...]string{"vague", "up", "down", "over", "gone"}[w] }

// target is one container name, through all its re-creations and runs.
type target struct {
	kind    *containerKind
	name    string
	actLock sync.Mutex // of who acts on it

	// What follows is guarded by chaos.mu.
	id               string
	wanted           wantedState
	since            time.Time // of wishDown and wishOver: nobody may start it from then on
	restartAfterHold bool      // it ended while it was held: wishUp when that is over
	held             bool
	heldAt           time.Time // from when on it was held for certain; zero: not for certain
	paused           bool
	unhealthy        bool // since its present run began
	busy             bool // an operator is at it

	// What the engine's own stream tells, which nothing is lost from.
	runs             bool
	diedAt           time.Time
	terms            int // TERM signals in this run
	termAt, killedAt time.Time

	// What went through the proxy.
	stops     int // in this run, by healthd
	startCall time.Time
	taken     bool // down by healthd's hand

	down  time.Duration // though it should be up
	stale time.Duration // how long it was called ready after its end
}
