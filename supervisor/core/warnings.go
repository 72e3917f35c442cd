package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"healthd/prober"
)

// Warnings returns where somebody else looks after the container, too: valid, but probably
// a mistake. It also returns why probes cannot be asked where they should be, and whose certificates
// end soon. The engine's own restart policy is no conflict: the engine restarts the container after
// a crash, healthd after a failed probe. An invalid container gets no warnings, because healthd does
// not supervise it.
func (v *View) Warnings() []string {
	if v.Spec == nil {
		return nil
	}
	var all []string
	for _, text := range []string{
		v.warnTwoCommands(), v.warnNoHealthcheck(), v.warnUnheard(), v.warnShortGrace(), v.warnJob(), v.warnInside(),
		v.warnUnreached(), v.warnUnkillable(), v.warnNetwork(), v.warnHostPort(), v.warnCertificate(), v.warnUnasked(),
	} {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// warnTwoCommands finds a container in which the engine and healthd both run commands all
// the time. A startup probe runs only for a short time.
func (v *View) warnTwoCommands() string {
	if !v.Container.HasHealthcheck {
		return ""
	}
	var probes []string
	for _, t := range []ProbeType{Liveness, Readiness} {
		if p := v.Spec.Probes[t]; p != nil && p.Handler.Exec != nil {
			probes = append(probes, t.String())
		}
	}
	if len(probes) == 0 {
		return ""
	}
	return "the engine runs the command of its HEALTHCHECK, and healthd the command of its " + strings.Join(probes, " and ") +
		" probe: one command is enough with the handler engine_health"
}

// warnNoHealthcheck finds probes that never have a result.
func (v *View) warnNoHealthcheck() string {
	if v.Container.HasHealthcheck {
		return ""
	}
	var probes []string
	follows := map[ProbeType]string{Startup: "it never counts as started", Readiness: "it is never ready", Liveness: "nobody notices when it fails"}
	what := ""
	for _, t := range []ProbeType{Liveness, Readiness, Startup} { // the worst comes last
		if p := v.Spec.Probes[t]; p != nil && p.Handler.EngineHealth != nil {
			probes, what = append(probes, t.String()), follows[t]
		}
	}
	if len(probes) == 0 {
		return ""
	}
	return "its " + strings.Join(probes, " and ") + " probe asks for the engine's HEALTHCHECK, and the container has none: the result is Unknown for ever, so " + what
}

// warnUnheard finds a container whose engine knows that it is unhealthy, and that nobody asks.
func (v *View) warnUnheard() string {
	probed := func(p *ProbeSpec) bool { return p != nil }
	if !v.Container.HasHealthcheck || slices.ContainsFunc(v.Spec.Probes[:], probed) {
		return ""
	}
	return "it has a HEALTHCHECK of the engine, and no probe: healthd does nothing when it is unhealthy; liveness.engine_health = {} has it restarted then"
}

// warnJob finds a container that ends by itself with success and is started again, because nobody has said
// that it should not be.
func (v *View) warnJob() string {
	byDefault := func(value Value) bool { return value.Path == "restart_policy" && value.Origin == OriginDefault }
	s, policy := &v.State, v.Container.RestartPolicy
	runsAgain := s.Run.LastByItself && s.Run.LastExit.Reason == ReasonCompleted && s.Lasting.Restarts[ByExit] > 0
	ended := s.Ending.By == EndedByItself && s.Run.Exit.Reason == ReasonCompleted && s.Action.Restart == ByExit
	if !runsAgain && !ended || policy != "" && policy != "no" || !slices.ContainsFunc(v.Spec.Values, byDefault) {
		return ""
	}
	return "it exits with 0 by itself, and healthd starts it again and again, because no restart_policy is set: if it is a job, set restart_policy = \"OnFailure\" or \"Never\""
}

// warnShortGrace finds a container to which healthd gives less time to end than an
// operator's stop does.
func (v *View) warnShortGrace() string {
	own := v.Container.StopTimeout
	if v.Container.AutoRemove { // healthd never stops it
		return ""
	}
	var given []string
	for _, t := range []ProbeType{Liveness, Startup} {
		if g := grace(v.Spec, v.Container, causeOf(t)); v.Spec.Probes[t] != nil && own > g {
			given = append(given, fmt.Sprintf("%v after a failed %s probe", g, t))
		}
	}
	if len(given) == 0 {
		return ""
	}
	return fmt.Sprintf("its own stop timeout is %v, but healthd gives it only %s (termination_grace_period)", own, strings.Join(given, " and "))
}

// warnInside finds probes and hooks that healthd cannot run, because it cannot enter the
// container's network namespace.
func (v *View) warnInside() string {
	c, why := v.Container, v.CannotEnter
	switch {
	case c.Pid == 0:
		why = prober.ErrOtherHost.Error()
	case c.From != nil && c.From.CannotEnter != "":
		why = "cannot enter the container's network namespace: " + c.From.CannotEnter
	}
	if why == "" || !c.State.Alive() {
		return ""
	}
	inside := v.probesAndHooks(func(h prober.Handler) bool { return h.Inside(c.ProbeAddress()) })
	if len(inside) == 0 {
		return ""
	}
	text := "its " + strings.Join(inside, " and ") + " cannot run: "
	if unreached := c.Unreached(); unreached != "" {
		text += unreached + "; and "
	}
	return text + "healthd " + why
}

// probesAndHooks names those of the spec whose handler is one of these.
func (v *View) probesAndHooks(is func(prober.Handler) bool) []string {
	var names []string
	for t := range ProbeType(NumProbes) {
		if p := v.Spec.Probes[t]; p != nil && is(p.Handler) {
			names = append(names, t.String()+" probe")
		}
	}
	hooked := func(h *prober.LifecycleHandler) bool {
		return h != nil && is(prober.Handler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket, Exec: h.Exec})
	}
	if hooked(v.Spec.Lifecycle.PostStart) {
		names = append(names, "post_start hook")
	}
	if hooked(v.Spec.Lifecycle.PreStop) {
		names = append(names, "pre_stop hook")
	}
	return names
}

// warnUnasked finds probes whose verdict is old, because healthd could not ask them since. What another warning says
// can never run is not told twice.
func (v *View) warnUnasked() string {
	if v.warnNoHealthcheck() != "" || v.warnInside() != "" || v.warnUnreached() != "" {
		return ""
	}
	var texts []string
	for t := range ProbeType(NumProbes) {
		if y := &v.State.Health.Probes[t]; v.Spec.Probes[t] != nil && v.State.Engine.State.Alive() && y.Unasked() {
			texts = append(texts, fmt.Sprintf("its %s probe has been Unknown %d times in a row, since %s: %s",
				t, y.Unknowns, y.UnknownSince.UTC().Format(time.RFC3339), firstLine(y.Last.Output)))
		}
	}
	return strings.Join(texts, "; ")
}

// firstLine returns the beginning of what a probe said.
func firstLine(s string) string {
	const most = 200
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + cutMark
}

// warnUnreached finds probes and hooks that may only ask from healthd's own network, which does not
// lead to the container.
func (v *View) warnUnreached() string {
	why := v.Container.Unreached()
	if why == "" || !v.Container.State.Alive() {
		return ""
	}
	outside := v.probesAndHooks(func(h prober.Handler) bool { return asksAddress(h) && !h.Inside("") })
	if len(outside) == 0 {
		return ""
	}
	return "its " + strings.Join(outside, " and ") + " cannot run: " + why
}

// warnUnkillable finds commands that healthd could not end.
func (v *View) warnUnkillable() string {
	from := v.Container.From
	if from == nil || !from.Blind {
		return ""
	}
	commands := v.probesAndHooks(func(h prober.Handler) bool { return h.Exec != nil })
	if len(commands) == 0 {
		return ""
	}
	return "healthd cannot end a command that hangs in its " + strings.Join(commands, " and ") + ": healthd's own container (" + from.Own + ") needs --pid=host"
}
