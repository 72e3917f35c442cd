package api

import (
	"fmt"
	"strings"

	"healthd/supervisor/core"
)

// enginePolicy is the engine's own restart policy, and empty when it has none.
func enginePolicy(v *core.View) string {
	if p := v.Container.RestartPolicy; p != "no" {
		return p
	}
	return ""
}

// consequence says what a failed probe or post_start hook does to its container.
func consequence(v *core.View) string {
	switch {
	case v.Container.AutoRemove:
		return "reports it, but does not stop it (--rm),"
	case v.State.Lasting.Held && v.Spec.RestartPolicy == core.Never:
		return "asks for its stop, which waits for the end of the hold,"
	case v.State.Lasting.Held:
		return "asks for its restart, which waits for the end of the hold,"
	case v.Spec.RestartPolicy == core.Never && len(v.Spec.RestartRules) > 0:
		return "stops it (restart policy Never; it is started again after " + ruleCodes(v.Spec.RestartRules) + ")"
	case v.Spec.RestartPolicy == core.Never:
		return "stops it (restart policy Never)"
	}
	return "restarts it"
}

// afterExit says what follows when a container ends by itself.
func afterExit(v *core.View) string {
	text := afterExitUnheld(v)
	if v.State.Lasting.Held && !v.Container.AutoRemove && enginePolicy(v) == "" {
		text += "; healthd does not start it before the hold ends"
	}
	return text
}

func afterExitUnheld(v *core.View) string {
	policy, rules := v.Spec.RestartPolicy, v.Spec.RestartRules
	switch {
	case v.Container.AutoRemove:
		return "the engine removes it (--rm)"
	case enginePolicy(v) != "":
		return "the engine's business, whose restart policy is " + enginePolicy(v)
	case policy == core.Always:
		return "it is started again (restart policy Always)"
	case len(rules) > 0 && policy == core.OnFailure:
		return "it is started again after " + ruleCodes(rules) + " (restart rules) and every other but 0 (restart policy OnFailure)"
	case len(rules) > 0:
		return "it is started again after " + ruleCodes(rules) + " (restart rules), else it stays stopped (restart policy Never)"
	case policy == core.OnFailure:
		return "it is started again unless its exit code is 0 (restart policy OnFailure)"
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
