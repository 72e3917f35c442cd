package scenarios

const (
	docker     = "docker"
	containerd = "containerd"
	podman     = "podman" // by its Docker-compatible API
	podmanOld  = "podman before 4.7"
)

// What Podman does otherwise.
const (
	podmanSignals   = "it tells one stop of a run at most, and only after its end"
	podmanStops     = "its events tell no signal, and of most stops nothing but the end"
	podmanHealth    = "timers of systemd run its HEALTHCHECKs, and a test has none"
	podmanBorrowers = "it removes no container whose network others use"
)

// rows returns the table.
func rows() []row {
	return []row{
		{name: "a command answers", spine: true, run: commandAnswers},
		{name: "a command is like the main process", run: commandIsLikeTheMainProcess},
		{name: "a command that times out is killed with all its processes", run: commandTimesOut},
		{name: "a command tells that it runs", run: commandTellsThatItRuns},
		{name: "a command cannot be started", run: commandCannotBeStarted, cannot: map[string]string{
			podman: "it tells one that cannot be started as one that ended with exit code 125, 126 or 127"}},
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

		{name: "a list agrees with inspections", spine: true, run: listAndInspectionAgree},
		{name: "an inspection shows environment and limits", run: environmentAndLimits},
		{name: "a container that does not exist is not found", run: noSuchContainer},
		{name: "an empty ID is not found", run: emptyID, cannot: map[string]string{
			docker: "its client refuses to ask", podman: "its client refuses to ask"}},
		{name: "a HEALTHCHECK is read", spine: true, run: healthcheckIsRead, cannot: map[string]string{podman: podmanHealth}},
		{name: "a pause is no failed HEALTHCHECK", run: pauseIsNoFailedHealthcheck, cannot: map[string]string{podman: podmanHealth}},
		{name: "a HEALTHCHECK's results are no news", run: healthResultsAreNoNews, cannot: map[string]string{podman: podmanHealth}},
		{name: "a HEALTHCHECK's output is read", run: healthcheckOutputIsRead, cannot: map[string]string{
			podman:     podmanHealth,
			containerd: "nerdctl keeps the output where no label shows it"}},

		{name: "the end of a log is read", spine: true, run: logIsRead},
		{name: "a log without a line break costs no more than its bound", run: logWithoutLineBreakIsBounded, cannot: map[string]string{
			podmanOld: "it takes longer to read 64 MB of a log than a call may take"}},
		{name: "processes, memory and CPU are told", spine: true, run: processesAndUsage, cannot: map[string]string{
			podmanOld: "it tells a table of processes as text"}},
		{name: "what has ended has no processes", run: endedHasNoProcesses},
		{name: "there is no evidence of a container that does not exist", run: noEvidenceOfNobody, cannot: map[string]string{
			podmanOld: "its answer does not say that there is no such container"}},

		{name: "a container is stopped and started", spine: true, run: stopAndStart},
		{name: "a paused container is stopped", run: pausedIsStopped, cannot: map[string]string{
			podman: "it refuses to tidy up a paused container that it has just killed"}},
		{name: "many start a container at once", run: startByManyAtOnce},
		{name: "a start fails", run: startThatFails},
		{name: "a container is started while it is removed", run: startOfWhatIsRemoved, cannot: map[string]string{
			podman: "it tells one that was removed meanwhile by an internal error"}},
		{name: "a container is started beside the engine's own policy", run: startBesideThePolicy},

		{name: "a life is watched", spine: true, run: lifeIsWatched, cannot: map[string]string{podmanOld: podmanStops}},
		{name: "the events of a life", run: eventsOfALife},
		{name: "many come and go at once", run: manyAtOnce},
		{name: "an end for want of memory", run: endForWantOfMemory, cannot: map[string]string{
			podman: "it calls the end of a later run one for want of memory, too"}},

		{name: "a kill from the host is nobody's stop", run: killFromHostIsNobodysStop},
		{name: "an operator stops what healthd stops", run: operatorStopsWhatHealthdStops, cannot: map[string]string{podman: podmanSignals}},
		{name: "an operator's signals are of one run", spine: true, on: alone, run: signalsAreOfARun, cannot: map[string]string{podmanOld: podmanStops}},
		{name: "an operator's signals by their numbers, also of the run before", on: alone, run: signalsByTheirNumbers, cannot: map[string]string{
			podman:     podmanSignals,
			containerd: "nerdctl's label tells of the first signal only and not its number, and of the newest run"}},
		{name: "healthd's own stop is told as an operator's", run: ownStopIsTold, cannot: map[string]string{
			podmanOld:  podmanStops,
			containerd: "no event tells of a signal, and healthd sets no label of an operator"}},
		{name: "healthd's own stop is not told as an operator's", run: ownStopIsNotTold, cannot: map[string]string{
			podman: "it does not say who stopped a container; the supervisor knows what healthd has stopped",
			docker: "its events do not say who sent a signal; the supervisor knows which were healthd's"}},

		{name: "a shared network follows its owner", run: sharedNetwork, cannot: map[string]string{podman: podmanBorrowers}},
		{name: "a shared network is followed without its owner's events", run: sharedNetworkWithoutEvents, cannot: map[string]string{podman: podmanBorrowers}},
		{name: "a start joins the network of its owner's new run", run: startJoinsTheOwnersNetwork, cannot: map[string]string{
			podman: "it starts the owner, too, and removes none whose network others use"}},

		{name: "ends while healthd is away", on: alone, run: endsWhileHealthdIsAway, cannot: map[string]string{podmanOld: podmanStops}},
		{name: "is made and ends while healthd is away", on: alone, run: madeWhileHealthdIsAway, cannot: map[string]string{podmanOld: podmanStops}},
		{name: "a task is deleted while healthd is away", on: alone, run: taskIsDeletedWhileHealthdIsAway, cannot: map[string]string{
			docker: "it keeps what it knows of a run as long as the container",
			podman: "it keeps what it knows of a run as long as the container"}},

		{name: "containers outlive the engine", spine: true, on: alone, run: containersOutliveTheEngine},
		{name: "a frozen engine holds up no call", on: alone, run: frozenEngine},
		{name: "a frozen engine holds up no question about its history", on: alone, run: historyOfAFrozenEngine, cannot: map[string]string{
			containerd: "it keeps no events: the history is healthd's own records"}},
		{name: "an engine that kills its containers first refuses connections", on: mortal, run: refusesBeforeItKills, cannot: map[string]string{
			podman:     "its containers outlive it",
			containerd: "its containers outlive it"}},
	}
}
