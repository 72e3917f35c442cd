package core

import (
	"fmt"
	"strings"
)

// autohealLabel is what autoheal, unless told otherwise, looks for with the value "true".
const autohealLabel = "autoheal"

// Warnings says where two masters look after the container: it works, and is hardly
// meant. The engine's own restart policy is not among it, as the two share the work
// there: exits are the engine's business, failed probes healthd's. An invalid
// container has one master only.
func (v *View) Warnings() []string {
	if v.Spec == nil {
		return nil
	}
	var all []string
	for _, text := range []string{v.warnTwoCommands(), v.warnShortGrace(), v.warnAutoheal()} {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// warnTwoCommands finds a container in which both the engine and healthd run commands for
// as long as it lives. A startup probe is over soon.
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
	return "the engine runs the command of its HEALTHCHECK and healthd that of its " + strings.Join(probes, " and ") +
		" probe: with the handler engine_health one command would do"
}

// warnShortGrace finds a container that has less time to end when healthd stops it than
// when anybody else does.
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

// warnAutoheal says that autoheal is told to restart the container. Whether it runs at
// all is not known here.
func (v *View) warnAutoheal() string {
	if v.Container.Labels[autohealLabel] != "true" {
		return ""
	}
	return "it has the label " + autohealLabel + "=true: autoheal, if it runs, restarts it too, and knows neither drain nor back-off nor hold"
}
