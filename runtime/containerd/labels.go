package containerd

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/runtime/restart"
)

// Labels of nerdctl and of containerd's restart plugin.
const (
	labelName        = "nerdctl/name"
	labelNetworks    = "nerdctl/networks"
	labelLogURI      = "nerdctl/log-uri"
	labelStopTimeout = "nerdctl/stop-timeout"
	labelAutoRemove  = "nerdctl/auto-remove"
	labelHealthcheck = "nerdctl/healthcheck"
	labelHealthState = "nerdctl/healthstate"

	labelStopSignal    = "io.containerd.image.config.stop-signal"
	labelRestartStatus = "containerd.io/restart.status"
	labelRestartPolicy = "containerd.io/restart.policy"
	labelRestartCount  = "containerd.io/restart.count"
	// labelStopped is "true" from nerdctl's stop, restart and kill on, until its start.
	labelStopped = "containerd.io/restart.explicitly-stopped"
)

const (
	// stopTimeoutDefault is how long nerdctl waits without a label, stopTimeoutSlack what its
	// stop takes besides.
	stopTimeoutDefault = 10 * time.Second
	stopTimeoutSlack   = 5 * time.Second

	policyNone = "no"
)

// What a container is to be for containerd's restart plugin. It starts what is to be running when that has ended, and
// kills what is to be stopped. What is to be created, as nerdctl create says, it leaves alone.
const (
	statusRunning = "running"
	statusStopped = "stopped"
	statusCreated = "created"
)

// nerdctlLogArgument is the argument with which nerdctl reads output on behalf of a shim.
const nerdctlLogArgument = "_NERDCTL_INTERNAL_LOGGING"

// labelSet is a container's labels. Images can set them, so nothing in them is trusted.
type labelSet map[string]string

// nerdctlName is what nerdctl takes as a name: a part of a path, as Docker's names are.
var nerdctlName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`)

// name returns the container's name: containers of ctr have none but their ID. What nerdctl
// would refuse is none, for it may look like a name of another container's.
func (l labelSet) name(id string) string {
	if name := l[labelName]; nerdctlName.MatchString(name) {
		return name
	}
	return id
}

// lasting returns the labels but for nerdctl's health results: each result is a change of a
// label, which is no change of the container.
func (l labelSet) lasting() map[string]string {
	if _, ok := l[labelHealthState]; !ok {
		return l
	}
	out := maps.Clone(l)
	delete(out, labelHealthState)
	return out
}

func (l labelSet) stopped() bool { return l[labelStopped] == "true" }

// stopTimeout returns the container's stop timeout; negative when none is configured.
func (l labelSet) stopTimeout() time.Duration {
	seconds, err := strconv.ParseInt(l[labelStopTimeout], 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxInt32 {
		return -1
	}
	return time.Duration(seconds) * time.Second
}

// stopTakes returns how long a stop of nerdctl's takes at most.
func (l labelSet) stopTakes() time.Duration {
	if d := l.stopTimeout(); d >= 0 {
		return d + stopTimeoutSlack
	}
	return stopTimeoutDefault + stopTimeoutSlack
}

// restartPolicy returns what containerd's restart plugin does, as Docker names it. The plugin
// leaves containers alone whose status is to be another than running.
func (l labelSet) restartPolicy() string {
	if l[labelRestartStatus] != statusRunning {
		return policyNone
	}
	policy, err := restart.NewPolicy(l[labelRestartPolicy])
	switch {
	case err != nil: // as the plugin does
		return policyNone
	case policy.Name() == "on-failure":
		return l[labelRestartPolicy]
	}
	return policy.Name()
}

// restartMax returns how often the plugin restarts the container; 0: without end.
func (l labelSet) restartMax() int {
	_, most, _ := strings.Cut(l[labelRestartPolicy], "on-failure:")
	n, _ := strconv.Atoi(most)
	return max(0, n)
}

func (l labelSet) restartsUsedUp() bool {
	n, _ := strconv.Atoi(l[labelRestartCount])
	return l.restartMax() > 0 && n >= l.restartMax()
}

// networkOwner returns the ID of the container whose network this one uses; empty for none.
func (l labelSet) networkOwner() string {
	var networks []string
	if json.Unmarshal([]byte(l[labelNetworks]), &networks) != nil {
		return ""
	}
	for _, name := range networks {
		if id, ok := strings.CutPrefix(name, "container:"); ok {
			return id
		}
	}
	return ""
}

func (l labelSet) autoRemove() bool {
	remove, err := strconv.ParseBool(l[labelAutoRemove])
	return err == nil && remove
}

// The states of nerdctl's health checks.
const (
	healthNone     = "none"
	healthStarting = "starting"
)

// hasHealthcheck says that nerdctl runs a health check.
func (l labelSet) hasHealthcheck() bool {
	if l[labelHealthState] != "" {
		return l.health() != healthNone
	}
	var check struct{ Test []string }
	return json.Unmarshal([]byte(l[labelHealthcheck]), &check) == nil && len(check.Test) > 0 && check.Test[0] != "NONE"
}

// health returns the state of nerdctl's health check.
func (l labelSet) health() string {
	var state struct{ Status string }
	_ = json.Unmarshal([]byte(l[labelHealthState]), &state)
	switch state.Status {
	case healthStarting, "healthy", "unhealthy":
		return state.Status
	}
	if l[labelHealthState] == "" && l.hasHealthcheck() {
		return healthStarting
	}
	return healthNone
}

// loggedBy says whether the container's output goes to nerdctl, whose data is in dir, by its
// labels. A label that names another program or file says nothing: containerd's shim would run
// the program, or write the file, as root.
func (l labelSet) loggedBy(nerdctl, dir string) bool {
	uri, err := url.Parse(l[labelLogURI])
	return err == nil && uri.Scheme == "binary" && uri.Path == nerdctl && uri.RawQuery == nerdctlLogArgument+"="+url.QueryEscape(dir)
}

var labelSeed = maphash.MakeSeed()

// hash returns a number that changes with the lasting labels.
func (l labelSet) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(labelSeed)
	for _, k := range slices.Sorted(maps.Keys(l)) {
		if k != labelHealthState {
			maphash.WriteComparable(&h, k)
			maphash.WriteComparable(&h, l[k])
		}
	}
	return h.Sum64()
}
