package configs

import (
	"math"
	"reflect"
	"slices"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// slowStart is a normal time for a container to start.
const slowStart = 5 * time.Second

// Warnings returns what is valid but probably a mistake, each as "FILE:LINE: KEY
// PATH: what follows from it". Labels are not known here, so it warns only of what no
// sensible label changes.
func (c *Config) Warnings() []string {
	var found Problems
	for i, s := range c.specs {
		if s.partial {
			continue
		}
		spec := s.read()
		warn := func(key, text string) {
			if text == "" {
				return
			}
			p := s.node.below(key).at.problem(s.prefix()+key, "%s", text)
			// What a spec has from another one is told there.
			if !slices.ContainsFunc(found, func(f Problem) bool { return f.File == p.File && f.Line == p.Line && f.Text == p.Text }) {
				found = append(found, p)
			}
		}
		warn(s.matchKey(), s.neverChosen(c.specs[:i]))
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

// matchKey is the key by which a spec chooses containers, "name" for one that chooses none.
func (s *fileSpec) matchKey() string {
	for _, key := range []string{"match", "match_name", "match_image"} {
		if s.own.fields[key] != nil {
			return key
		}
	}
	return "name"
}

// AsksInside says whether a spec has a probe or hook with via = "container".
func (c *Config) AsksInside() bool {
	const address = "any" // only without one, via = "container" is a default
	return slices.ContainsFunc(c.specs, func(s *fileSpec) bool {
		spec := s.read()
		inside := func(p *core.ProbeSpec) bool { return p != nil && p.Handler.Inside(address) }
		hook := func(h *prober.LifecycleHandler) bool { return h != nil && h.Inside(address) }
		return slices.ContainsFunc(spec.Probes[:], inside) || hook(spec.Lifecycle.PostStart) || hook(spec.Lifecycle.PreStop)
	})
}

// neverChosen warns of an earlier spec that takes every container that s matches.
func (s *fileSpec) neverChosen(before []*fileSpec) string {
	for _, other := range before {
		if other.matcher.covers(&s.matcher) {
			return "the spec at " + other.own.at.String() + " comes first and also matches all of these containers: only the label " +
				specLabel + "=" + s.name + " selects this one"
		}
	}
	return ""
}

// killsBusy warns of a liveness probe that is the readiness probe again.
func killsBusy(spec *core.Spec) string {
	live, ready := spec.Probes[core.Liveness], spec.Probes[core.Readiness]
	if live == nil || ready == nil || !reflect.DeepEqual(live.Handler, ready.Handler) || givesUp(live) > givesUp(ready) {
		return ""
	}
	return "runs the same check as readiness and fails after " + bareDuration(givesUp(live)) +
		" (readiness after " + bareDuration(givesUp(ready)) + "): healthd restarts a busy container before it can shed load"
}

// givesUp returns how long a container may leave probes without an answer until they
// have failed. After one that outlasts its period, the next comes at a multiple of it.
func givesUp(p *core.ProbeSpec) time.Duration {
	periods := max(1, (p.Timeout+p.Period-1)/p.Period)
	return times(p.FailureThreshold, periods*p.Period)
}

// killsSlowStart warns of a liveness probe that stops a container which needs seconds
// to start. A post_start hook and the engine's HEALTHCHECK may wait for the start.
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
	return "there is no startup probe: healthd stops a container that needs more than " + bareDuration(live.InitialDelay+last) +
		" to start"
}

// nowhereToPush warns of a backend without a port: each container needs a label for it.
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
