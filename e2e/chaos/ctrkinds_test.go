package chaos

import (
	"strings"
	"sync"
	"time"
)

// ctrKind is a configuration that containers of containerd share.
type ctrKind struct {
	name      string
	members   int
	policy    string
	namespace string // empty: "default"
	foreign   bool   // healthd was not given its namespace
	ends      bool   // by itself, all the time
	probed    bool   // by liveness: a file makes it sick
	script    string // what it runs
	settings  string // the rest of its spec
}

const (
	ctrReadiness = "[spec.readiness]\nhttp_get = { port = 8080, path = \"/healthz\", via = \"container\" }\nperiod = \"500ms\"\ntimeout = \"30s\"\nfailure_threshold = 1\n"
	ctrLiveness  = "[spec.liveness]\nexec = { command = [\"test\", \"!\", \"-e\", \"/dev/shm/sick\"] }\nperiod = \"1s\"\ntimeout = \"30s\"\nfailure_threshold = 1\n"

	waits = "trap 'exit 0' TERM; sleep 100000 & wait"
)

var ctrKinds = []*ctrKind{
	{name: "web", members: 2, policy: "Always", probed: true, script: "exec /bin/testserver", settings: ctrReadiness + ctrLiveness},
	{name: "shell", members: 1, policy: "Always", probed: true, script: waits, settings: ctrLiveness},
	{name: "deaf", members: 1, policy: "Always", probed: true, script: "exec /bin/testserver -ignore-term", settings: ctrReadiness + ctrLiveness},
	{name: "crash", members: 1, policy: "Always", ends: true, script: "sleep 3; exit 1"},
	{name: "flaky", members: 1, policy: "OnFailure", ends: true, script: "sleep 2; exit $(($(date +%s) % 2))"},
	{name: "job", members: 1, policy: "OnFailure", probed: true, script: waits, settings: ctrLiveness},
	{name: "once", members: 1, policy: "Never", probed: true, script: waits, settings: ctrLiveness},
	{name: "blog", members: 1, policy: "Always", namespace: "blog", probed: true, script: "exec /bin/testserver", settings: ctrReadiness + ctrLiveness},
	{name: "foreign", members: 1, policy: "Always", namespace: "foreign", foreign: true, probed: true, script: waits, settings: ctrLiveness},
}

// cmd is what a container of the kind runs.
func (k *ctrKind) cmd() []string { return []string{"sh", "-c", k.script} }

var ctrSpecs = func() string {
	var b strings.Builder
	b.WriteString("[guard]\nmax_restarts = 0\n")
	for _, k := range ctrKinds {
		b.WriteString("[[spec]]\nname = \"" + k.name + "\"\nmatch = { e2e = \"" + k.name + "\" }\nrestart_policy = \"" + k.policy + "\"\n" +
			"termination_grace_period = \"2s\"\n" + k.settings + "[spec.backoff]\ninitial = \"1s\"\nmax = \"4s\"\n")
	}
	return b.String()
}()

const (
	// ctrStopTimeout is each container's stop timeout in seconds, and ctrStopTakes how long
	// healthd gives a stop of nerdctl's then: a signal that stops nothing in that time was none.
	ctrStopTimeout = 2
	ctrStopTakes   = 7 * time.Second
)

// ctrTarget is one container's name, through all its re-creations and runs.
type ctrTarget struct {
	kind    *ctrKind
	name    string
	actLock sync.Mutex // of who acts on it

	// What follows is guarded by chaosRun.mu.
	id       string
	wanted   wantedState
	since    time.Time // of wantedStopped and wantedEnded: nobody may start it from then on
	busy     bool      // an operator is at it
	unjudged bool      // it ended while one was
	asking   bool      // healthd is told to restart it
	present  ctrRun
	last     ctrRun               // the one before
	pids     map[uint32]time.Time // when each was new

	// What went through the proxy.
	starting  int       // start calls of healthd under way
	startCall time.Time // when the newest began
	startDone time.Time // when the newest ended

	down  time.Duration // though it should run
	stale time.Duration // how long it was called ready after its end
}

// ctrRun is a run of a container.
type ctrRun struct {
	pid      uint32
	began    time.Time
	runs     bool
	paused   bool
	ended    time.Time
	code     uint32
	sick     bool      // the file was made in it
	asked    bool      // healthd was told to restart it
	signals  int       // of healthd
	labelled time.Time // when nerdctl last signalled it, and did not end it
	deafened bool      // healthd did not watch then
}

func (s *ctrTarget) key() string { return s.kind.space() + "/" + s.id }

func (k *ctrKind) space() string {
	if k.namespace == "" {
		return "default"
	}
	return k.namespace
}
