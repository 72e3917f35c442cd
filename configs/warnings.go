package configs

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
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
	used := usedPorts(c.specs)
	for i, s := range c.specs {
		if s.partial {
			continue
		}
		for _, w := range slices.Concat(s.warnMatch(c.specs[:i]), s.warnSpec(used[s], c.specs[:i]), c.warnDrain(s)) {
			p := s.nearest(w.key).at.problem(s.prefix()+w.key, "%s", w.text)
			// What a spec has from another one is told there.
			if !slices.ContainsFunc(found, func(f Problem) bool { return f.File == p.File && f.Line == p.Line && f.Text == p.Text }) {
				found = append(found, p)
			}
		}
	}
	found = append(found, c.warnPublishFiles()...)
	found = append(found, c.warnFleet()...)
	found.sort()
	var lines []string
	for _, p := range found {
		lines = append(lines, p.String())
	}
	return lines
}

// warning is one about the value of a spec at a path of keys.
type warning struct{ key, text string }

// nearest returns what is at a path of keys, or the last on the way there.
func (s *fileSpec) nearest(key string) *node {
	n := s.node
	for part := range strings.SplitSeq(key, ".") {
		part, _, _ = strings.Cut(part, "[")
		if n.fields[part] == nil {
			break
		}
		n = n.fields[part]
	}
	return n
}

// told returns the warnings that have a text.
func told(all ...warning) []warning {
	return slices.DeleteFunc(all, func(w warning) bool { return w.text == "" })
}

// warnSpec warns of what a spec says about the containers that it is for.
func (s *fileSpec) warnSpec(usedPorts map[string]bool, before []*fileSpec) []warning {
	spec := s.read()
	found := told(
		warning{"liveness", killsBusy(spec)},
		warning{"liveness", killsSlowStart(spec)},
		warning{backendPath, nowhereToPush(spec)},
		warning{s.matchKey(), s.asksNothing(spec, before)},
		warning{s.matchKey(), s.givesSecrets(spec)},
		warning{"publish.port", readyAtOnce(spec)},
		warning{"publish.drain", drainsLong(spec)},
		warning{"lifecycle.pre_stop", sleepsTooLong(spec)},
		warning{"group.unreachable", s.waitsForNobody(spec)},
	)
	for which, p := range spec.Probes {
		if p == nil {
			continue
		}
		key := core.ProbeType(which).String()
		found = append(found, told(warning{key + ".timeout", outlastsPeriod(p)}, warning{key + ".period", outlastsIdle(p)})...)
		found = append(found, warnHandler(key, p.Handler)...)
	}
	for i, h := range []*prober.LifecycleHandler{spec.Lifecycle.PostStart, spec.Lifecycle.PreStop} {
		if h != nil {
			found = append(found, warnHandler("lifecycle."+hookKeys()[i], prober.Handler{HTTPGet: h.HTTPGet, Exec: h.Exec})...)
		}
	}
	return append(found, s.unusedPorts(usedPorts)...)
}

// givesSecrets warns of a spec with headers or certificates that labels or a name choose: a tenant writes these. The header Host
// is no secret.
func (s *fileSpec) givesSecrets(spec *core.Spec) string {
	what := secretsIn(s.node)
	if what == "" || s.claimable || s.matcher.image != "" || s.matcher.none() || what == "headers" && !slices.ContainsFunc(gets(spec), sendsSecret) {
		return ""
	}
	return "any container that is made with these labels, or with this name, gets the spec's " + what +
		": add match_image, or claimable = true where all may have them"
}

func sendsSecret(h *prober.HTTPGet) bool {
	return slices.ContainsFunc(h.Headers, func(h prober.Header) bool { return !strings.EqualFold(h.Name, "Host") })
}

// gets returns the requests of a spec's probes and hooks.
func gets(spec *core.Spec) (all []*prober.HTTPGet) {
	for _, p := range spec.Probes {
		if p != nil && p.Handler.HTTPGet != nil {
			all = append(all, p.Handler.HTTPGet)
		}
	}
	for _, h := range []*prober.LifecycleHandler{spec.Lifecycle.PostStart, spec.Lifecycle.PreStop} {
		if h != nil && h.HTTPGet != nil {
			all = append(all, h.HTTPGet)
		}
	}
	return all
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

// asksNothing warns of a spec whose containers nobody probes, though nobody says that restarts are
// all that is wanted.
func (s *fileSpec) asksNothing(spec *core.Spec, before []*fileSpec) string {
	none := !slices.ContainsFunc(spec.Probes[:], func(p *core.ProbeSpec) bool { return p != nil })
	silent := s.node.fields["restart_policy"] == nil && len(spec.RestartRules) == 0
	if !none || !silent || s.matcher.none() || s.neverChosen(before) != "" {
		return ""
	}
	return "the spec has no probe: healthd only starts its containers again when they end, and counts them as ready while they run"
}

// readyAtOnce warns of what goes to a load balancer before it can answer.
func readyAtOnce(spec *core.Spec) string {
	if spec.Publish.Port == 0 || spec.Probes[core.Readiness] != nil || spec.Probes[core.Startup] != nil || len(spec.ReadinessGates) > 0 {
		return ""
	}
	return "there is no readiness probe: load balancers hear of a container as soon as it runs, and until it ends"
}

// longDrain is more than the longest of usual requests takes.
const longDrain = 10 * time.Minute

// drainsLong warns of a drain that keeps a broken container from its restart.
func drainsLong(spec *core.Spec) string {
	if spec.Publish.Drain <= longDrain {
		return ""
	}
	return "is " + bareDuration(spec.Publish.Drain) + ": each restart takes so much longer, that of a container which answers nobody, too"
}

// sleepsTooLong warns of a pre_stop sleep that the container's own stop timeout may cut short. Where the
// spec has a grace period, that is an error.
func sleepsTooLong(spec *core.Spec) string {
	h := spec.Lifecycle.PreStop
	if h == nil || h.Sleep == nil || spec.TerminationGracePeriod != 0 || h.Sleep.Duration <= core.DefaultGrace {
		return ""
	}
	return "sleeps " + bareDuration(h.Sleep.Duration) + " within the grace period, which is the container's stop timeout, else " +
		bareDuration(core.DefaultGrace) + ": set termination_grace_period"
}

// outlastsPeriod warns of a timeout that makes the period a lie.
func outlastsPeriod(p *core.ProbeSpec) string {
	if p.Timeout <= p.Period {
		return ""
	}
	return "is " + bareDuration(p.Timeout) + ", longer than the period (" + bareDuration(p.Period) + "): while probes are slow, they follow each other at once"
}

// outlastsIdle warns of a period in which the kept connection is closed.
func outlastsIdle(p *core.ProbeSpec) string {
	h := p.Handler
	keeps := h.HTTPGet != nil && h.HTTPGet.KeepAlive || h.GRPC != nil && h.GRPC.KeepAlive
	if !keeps || p.Period < prober.MaxIdle {
		return ""
	}
	return "is " + bareDuration(p.Period) + ", and healthd keeps an idle connection for " + bareDuration(prober.MaxIdle) +
		`: connection = "keep-alive" has no effect`
}

// unusedPorts warns of a port's name that neither the spec nor one that extends it uses.
func (s *fileSpec) unusedPorts(used map[string]bool) []warning {
	own := s.own.fields["ports"]
	if own == nil || own.kind != tableKind {
		return nil
	}
	var found []warning
	for _, name := range own.keys() {
		if !used[name] {
			found = append(found, warning{"ports." + showKey(name), "nothing in the spec uses this name as its port: write port = " + quoteTOML(name)})
		}
	}
	return found
}

// usedPorts returns for each spec which names of ports it uses, or one that extends it.
func usedPorts(specs []*fileSpec) map[*fileSpec]map[string]bool {
	used := map[*fileSpec]map[string]bool{}
	for _, s := range specs {
		used[s] = map[string]bool{}
	}
	upwards := slices.SortedStableFunc(slices.Values(specs), func(a, b *fileSpec) int { return b.depth - a.depth })
	for _, s := range upwards {
		addPorts(used[s], s.node)
		if s.base != nil {
			maps.Copy(used[s.base], used[s])
		}
	}
	return used
}

// addPorts adds the names that keys port below n have.
func addPorts(names map[string]bool, n *node) {
	for key, field := range n.fields {
		switch {
		case key == "port" && field.textual():
			names[field.text] = true
		case field.kind == tableKind:
			addPorts(names, field)
		}
	}
}
