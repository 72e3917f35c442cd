package scenarios

const (
	docker     = "docker"
	containerd = "containerd"
)

// rows returns the table.
func rows() []row {
	return []row{
		{name: "a command answers", run: commandAnswers},
		{name: "a command is like the main process", run: commandIsLikeTheMainProcess},
		{name: "a command that times out is killed with all its processes", run: commandTimesOut},
		{name: "a command tells that it runs", run: commandTellsThatItRuns},
		{name: "a command is cancelled", run: commandIsCancelled},
		{name: "a command cannot be asked", run: commandCannotBeAsked},
		{name: "a command ends with its container", run: commandOutlivedByNobody},
		{name: "a command of another healthd goes on", run: commandOfAnotherHealthd},
		{name: "a command answers after one that holds its output", run: commandAfterHeldOutput},
		{name: "a command answers beside others that hold their output", run: commandBesideHeldOutputs},
		{name: "a background process that delays nobody is spared", run: commandSparesWhatDelaysNobody},
		{name: "commands of a healthd that sees no processes do not pile up", run: blindCommandsDoNotPileUp},
		{name: "a command that healthd cannot kill runs on alone", on: alone, run: blindCommandRunsOn, cannot: map[string]string{
			containerd: "it kills a command itself, which healthd need not see"}},

		{name: "a list agrees with inspections", run: listAndInspectionAgree},
		{name: "an inspection shows environment and limits", run: environmentAndLimits},
		{name: "a container that does not exist is not found", run: noSuchContainer},
		{name: "an empty ID is not found", run: emptyID, cannot: map[string]string{
			docker: "its client refuses to ask"}},
		{name: "a HEALTHCHECK is read", run: healthcheckIsRead},
		{name: "a HEALTHCHECK's results are no news", run: healthResultsAreNoNews},
		{name: "a HEALTHCHECK's output is read", run: healthcheckOutputIsRead, cannot: map[string]string{
			containerd: "nerdctl keeps the output where no label shows it"}},

		{name: "a container is stopped and started", run: stopAndStart},
		{name: "a paused container is stopped", run: pausedIsStopped},
		{name: "many start a container at once", run: startByManyAtOnce},
		{name: "a start fails", run: startThatFails},
		{name: "a container is started while it is removed", run: startOfWhatIsRemoved},
		{name: "a container is started beside the engine's own policy", run: startBesideThePolicy},

		{name: "a life is watched", run: lifeIsWatched},
		{name: "the events of a life", run: eventsOfALife},
		{name: "many come and go at once", run: manyAtOnce},
		{name: "an end for want of memory", run: endForWantOfMemory},

		{name: "a kill from the host is nobody's stop", run: killFromHostIsNobodysStop},
		{name: "an operator stops what healthd stops", run: operatorStopsWhatHealthdStops},
		{name: "an operator's signals are of one run", on: alone, run: signalsAreOfARun},
		{name: "an operator's signals by their numbers, also of the run before", on: alone, run: signalsByTheirNumbers, cannot: map[string]string{
			containerd: "nerdctl's label tells of the first signal only and not its number, and of the newest run"}},
		{name: "healthd's own stop is told as an operator's", run: ownStopIsTold, cannot: map[string]string{
			containerd: "no event tells of a signal, and healthd sets no label of an operator"}},
		{name: "healthd's own stop is not told as an operator's", run: ownStopIsNotTold, cannot: map[string]string{
			docker: "its events do not say who sent a signal; the supervisor knows which were healthd's"}},

		{name: "a shared network follows its owner", run: sharedNetwork},
		{name: "a shared network is followed without its owner's events", run: sharedNetworkWithoutEvents},
		{name: "a start joins the network of its owner's new run", run: startJoinsTheOwnersNetwork},

		{name: "ends while healthd is away", on: alone, run: endsWhileHealthdIsAway},
		{name: "a task is deleted while healthd is away", on: alone, run: taskIsDeletedWhileHealthdIsAway, cannot: map[string]string{
			docker: "it keeps what it knows of a run as long as the container"}},

		{name: "containers outlive the engine", on: own, run: containersOutliveTheEngine},
		{name: "a frozen engine holds up no call", on: own, run: frozenEngine},
		{name: "a frozen engine holds up no question about its history", on: own, run: historyOfAFrozenEngine, cannot: map[string]string{
			containerd: "it keeps no events: the history is healthd's own records"}},
		{name: "an engine accepts connections while it is up", on: own, run: acceptsWhileUp},
		{name: "an engine that kills its containers first refuses connections", on: mortal, run: refusesBeforeItKills, cannot: map[string]string{
			containerd: "its containers outlive it"}},
	}
}
