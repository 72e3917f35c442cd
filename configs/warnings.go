package configs

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// slowStart is what a start may well take.
const slowStart = 5 * time.Second

// Warnings returns what is right and yet hardly meant, each as "FILE:LINE: KEY
// PATH: what follows from it". Labels are not known here, so it warns of what no
// sensible label changes.
func (c *Config) Warnings() []string {
	var found Problems
	for i, s := range c.specs {
		spec := readSpec(&reader{}, s.node)
		warn := func(key, text string) {
			if text != "" {
				found = append(found, s.node.below(key).at.problem(s.prefix()+key, "%s", text))
			}
		}
		warn("match", s.neverChosen(c.specs[:i]))
		warn("liveness", killsBusy(spec))
		warn("liveness", killsSlowStart(spec))
		warn(backendPath, nowhereToPush(spec))
	}
	found.sort()
	var lines []string
	for _, p := range found {
		lines = append(lines, p.String())
	}
	return lines
}

// neverChosen finds a spec before s that takes every container that s matches.
func (s *fileSpec) neverChosen(before []*fileSpec) string {
	for _, other := range before {
		if len(s.match) > 0 && other.covers(s) {
			return "the spec at " + other.node.at.String() + " comes first and matches all of these too: only the label " +
				specLabel + "=" + s.name + " chooses this one"
		}
	}
	return ""
}

// covers says that whatever other matches, s does too.
func (s *fileSpec) covers(other *fileSpec) bool {
	for _, p := range s.match {
		wider := func(o pattern) bool { return o.label == p.label && wider(p.glob, o.glob) }
		if !slices.ContainsFunc(other.match, wider) {
			return false
		}
	}
	return len(s.match) > 0
}

// wider says that pattern matches whatever narrow does. Read as a text, narrow must
// match it; only a ? must not stand for a * then, which may be many characters.
func wider(pattern, narrow string) bool {
	plain := !strings.Contains(narrow, "*") || !strings.Contains(pattern, "?")
	return pattern == narrow || plain && glob(pattern, narrow)
}

// killsBusy is for one probe written down twice.
func killsBusy(spec *core.Spec) string {
	live, ready := spec.Probes[core.Liveness], spec.Probes[core.Readiness]
	if live == nil || ready == nil || !reflect.DeepEqual(live.Handler, ready.Handler) || givesUp(live) > givesUp(ready) {
		return ""
	}
	return "asks the same as readiness and gives up no later, after " + bareDuration(givesUp(live)) +
		" (readiness after " + bareDuration(givesUp(ready)) + "): a busy container is restarted before it can shed load"
}

// givesUp returns how long a container that does not answer in time has until the
// verdict. A probe that outlasts its period comes at the next multiple of it.
func givesUp(p *core.ProbeSpec) time.Duration {
	periods := max(1, (p.Timeout+p.Period-1)/p.Period)
	return times(p.FailureThreshold, periods*p.Period)
}

// killsSlowStart is for liveness probes that end a start which takes seconds. A
// post_start hook and the engine's HEALTHCHECK can have waited for that start.
func killsSlowStart(spec *core.Spec) string {
	live := spec.Probes[core.Liveness]
	if live == nil || live.Handler.EngineHealth != nil || spec.Probes[core.Startup] != nil || spec.Lifecycle.PostStart != nil {
		return ""
	}
	// A port that is not open yet refuses at once, so timeouts do not count.
	last := times(live.FailureThreshold-1, live.Period)
	if live.InitialDelay >= slowStart || last >= slowStart-live.InitialDelay {
		return ""
	}
	return "there is no startup probe: a container that needs more than " + bareDuration(live.InitialDelay+last) +
		" to start is stopped before it is up"
}

// nowhereToPush is for a backend whose containers all must have a label for the port.
func nowhereToPush(spec *core.Spec) string {
	if spec.Publish.HAProxy.Backend == "" || spec.Publish.Port != 0 {
		return ""
	}
	return needsPort + ": a container without the label " + labelPrefix + "publish.port is Invalid"
}

// times returns n times d, or the longest duration when that is less.
func times(n int, d time.Duration) time.Duration {
	if n > 0 && d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}
