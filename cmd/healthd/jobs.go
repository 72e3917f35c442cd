package main

import (
	"fmt"
	"slices"
	"strings"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// composeDepends is the label in which Compose keeps depends_on: SERVICE:CONDITION:RESTART, and a comma between two.
const composeDepends = "com.docker.compose.depends_on"

// jobWarnings says which services are jobs, by the labels of others of their project that wait for their completion, and
// would be started again each time they finish.
func jobWarnings(b *supervisor.Board) []string {
	awaited := map[string]string{} // PROJECT/SERVICE → a container that waits for it
	for v := range b.All() {
		project := core.ProjectOf(v.Container.Labels)
		for on := range strings.SplitSeq(v.Container.Labels[composeDepends], ",") {
			service, condition, _ := strings.Cut(on, ":")
			if project != "" && strings.HasPrefix(condition, "service_completed_successfully") {
				name := project + "/" + service
				awaited[name] = max(awaited[name], b.NameOf(v.Container))
			}
		}
	}
	if len(awaited) == 0 {
		return nil
	}
	var all []string
	for _, v := range b.Views() {
		waiter := awaited[core.ServiceOf(v.Container.Labels)]
		if waiter != "" && v.Spec != nil && v.RestartsAfter(0) {
			all = append(all, fmt.Sprintf("%s is a job, as %s waits for its completion (depends_on of Compose), "+
				"and restart policy %s starts it again when it has finished: "+`set restart_policy = "OnFailure"`, b.NameOf(v.Container), waiter, v.Spec.RestartPolicy))
		}
	}
	const most = 5
	if more := len(all) - most; more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more jobs that are started again when they have finished", more))
	}
	return all
}
