package api

import (
	"fmt"
	"strings"

	"healthd/supervisor/core"
)

// enginePolicy is the engine's own restart policy, and empty when it has none, or leaves the container down.
func enginePolicy(v *core.View) string {
	if v.Container.HasRestartPolicy() && !v.State.Run.EngineGaveUp {
		return v.Container.RestartPolicy
	}
	return ""
}

// engineDecides says that the engine's own restart policy applies, not healthd's.
func engineDecides(v *core.View) string {
	return "the engine's own restart policy decides (" + enginePolicy(v) + ")"
}

// whenFree says what healthd waits for before it stops or starts anything; empty: nothing.
func whenFree(v *core.View) string {
	switch {
	case v.State.Lost:
		return " when it can reach the engine again"
	case v.State.Lasting.Held():
		return " when the hold ends"
	}
	return ""
}

// afterFailedProbe says what follows when a startup or liveness probe has failed.
func afterFailedProbe(v *core.View) string {
	switch {
	case v.Container.AutoRemove:
	case v.Spec.OnFailure == core.TellFailed:
		return "healthd records it, and leaves the container as it is (on_failure none)"
	case v.Spec.Observe:
		return "healthd records that it would " + pendingCall(v) + " it (mode observe)"
	case v.Spec.ManagedElsewhere != "" && !v.State.Lasting.Held():
		return "healthd stops it, and leaves the start to " + v.Spec.ManagedElsewhere
	case v.Spec.OnFailure == core.StopFailed && whenFree(v) != "":
		return "healthd stops it" + whenFree(v)
	case v.Spec.OnFailure == core.StopFailed:
		return "healthd stops it (on_failure stop)"
	}
	return afterFailure(v)
}

// afterFailure says what follows when the post_start hook has failed, or a probe without on_failure.
func afterFailure(v *core.View) string {
	switch {
	case v.Container.AutoRemove:
		return "healthd records it but does not stop the container (--rm)"
	case whenFree(v) != "" && v.Spec.RestartPolicy == core.Never:
		return "healthd stops it" + whenFree(v)
	case v.Spec.RestartPolicy == core.Never && len(v.Spec.RestartRules) > 0:
		return "healthd stops it, and restarts it only after " + ruleCodes(v.Spec.RestartRules) + " (restart policy Never)"
	case v.Spec.RestartPolicy == core.Never:
		return "healthd stops it (restart policy Never)"
	}
	return "healthd restarts it" + whenFree(v)
}

// afterExit says what follows when a container ends by itself.
func afterExit(v *core.View) string {
	restarts := "healthd restarts it"
	switch {
	case v.State.Action.GaveUp:
		restarts = "healthd has given up, and does not restart it"
	case v.Spec.Observe:
		restarts = "healthd would restart it, and only observes it"
	case whenFree(v) != "":
		restarts = strings.TrimPrefix(whenFree(v), " ") + ", healthd restarts it"
	}
	policy, rules := v.Spec.RestartPolicy, v.Spec.RestartRules
	switch {
	case v.Container.AutoRemove:
		return "the engine removes it (--rm)"
	case v.Spec.ManagedElsewhere != "":
		return v.Spec.ManagedElsewhere + " decides: healthd does not start it"
	case enginePolicy(v) != "":
		return engineDecides(v)
	case policy == core.Always:
		return restarts + " (restart policy Always)"
	case len(rules) > 0 && policy == core.OnFailure:
		return restarts + " after " + ruleCodes(rules) + " (restart rules) and after any other exit code but 0 (restart policy OnFailure)"
	case len(rules) > 0:
		return restarts + " after " + ruleCodes(rules) + " (restart rules), else it stays stopped (restart policy Never)"
	case policy == core.OnFailure:
		return restarts + " unless its exit code is 0 (restart policy OnFailure)"
	}
	return "it stays stopped (restart policy Never)"
}

// ruleCodes says after which exit codes the restart rules start the container.
func ruleCodes(rules []core.RestartRule) string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		codes := make([]string, len(r.ExitCodes))
		for k, code := range r.ExitCodes {
			codes[k] = fmt.Sprint(code)
		}
		texts[i] = "exit code " + alternatives(codes)
		if r.Operator == core.NotIn {
			texts[i] = "any exit code but " + alternatives(codes)
		}
	}
	return alternatives(texts)
}

func alternatives(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}
