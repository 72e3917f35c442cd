package engines

import (
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
)

// use says which engine a row needs.
type use int

const (
	shared use = iota
	// alone is the shared one while nothing else runs.
	alone
	// own is another one, as the row ends it.
	own
)

// row is a scenario that both engines must play.
type row struct {
	name string
	// spine rows together touch every effect and every outlet once: make test plays them, make test-engines all.
	spine bool
	on    use
	run   func(*testing.T, harness.Engine)
	// cannot says why engines, by their names, cannot do it.
	cannot map[string]string
}

// TestScenarios plays what users see of healthd on every engine.
func TestScenarios(t *testing.T) {
	for name, get := range map[string]func(*testing.T, use) harness.Engine{
		"docker": func(t *testing.T, on use) harness.Engine {
			if on == own {
				return dockertest.Start(t)
			}
			return harness.Docker.Engine(t)
		},
		"containerd": func(t *testing.T, on use) harness.Engine {
			if on == own {
				return harness.Nerdctl{Engine: containerdtest.Start(t)}
			}
			return harness.Nerdctl{Engine: harness.Containerd.Engine(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range rows() {
				if testing.Short() && !r.spine {
					continue
				}
				t.Run(r.name, func(t *testing.T) {
					if why := r.cannot[name]; why != "" {
						t.Skipf("%s cannot: %s", name, why)
					}
					if r.on == shared || r.on == own {
						t.Parallel()
					}
					r.run(t, get(t, r.on))
				})
			}
		})
	}
}

func rows() []row {
	return []row{
		{name: "start, rename, remove", spine: true, run: startRenameRemove},
		{name: "a hundred containers", on: alone, run: hundredContainers},
		{name: "labels", spine: true, run: labelsOfContainers},
		{name: "services of Compose projects", spine: true, run: servicesOfProjects},
		{name: "why not supervised", run: whyNotSupervised},
		{name: "check a container", run: checkContainer},
		{name: "hold services and projects", run: holdServicesAndProjects},
		{name: "the engine is away", spine: true, on: own, run: engineAway},
		{name: "a crash under Always backs off", spine: true, run: crashUnderAlwaysBacksOff},
		{name: "restart policies", spine: true, run: policies},
		{name: "what an operator stops stays stopped", spine: true, run: operatorStopStays},
		{name: "healthd restart", spine: true, run: restartCommand},
		{name: "a SIGTERM while it drains", spine: true, run: sigtermDuringDrainFinishes},
		{name: "ready only after delay and first success", run: readyOnlyAfterDelayAndFirstSuccess},
		{name: "a wrong port is never ready and never restarted", run: wrongPortNeverReadyNeverRestarted},
		{name: "a failed exec probe restarts once", spine: true, run: execFileRemovedRestartsOnce},
		{name: "the startup probe comes before the others", spine: true, run: startupGatesLiveness},
		{name: "a failed startup probe restarts", spine: true, run: startupFailureRestarts},
		{name: "healthd probe", spine: true, run: probeCommand},
		{name: "healthd why", spine: true, run: whyCommand},
		{name: "healthd report", run: reportOfServices},
		{name: "background processes hold a command's output", run: execBackgroundProcessHoldsOutput},
		{name: "gRPC: not serving", spine: true, run: grpcNotServing},
		{name: "results before the first probe", run: resultsBeforeTheFirstProbe},
		{name: "the first probe comes at initial_delay", run: firstProbeComesAtInitialDelay},
		{name: "a new run resets counts", run: newRunResetsCounts},
		{name: "a pause keeps counts", spine: true, run: pausedKeepsItsCounts},
		{name: "back-off survives a restart of healthd", spine: true, run: backoffSurvivesHealthdRestart},
		{name: "back-off is forgotten after a long run", run: backoffIsForgottenAfterALongRun},
		{name: "a container found stopped is left alone", run: containerFoundStoppedIsLeftAlone},
		{name: "made and crashed while healthd is away", run: madeWhileHealthdIsAway},
		{name: "ready and started survive a restart of healthd", spine: true, run: readyAndStartedSurviveHealthdRestart},
		{name: "an operator's stops survive restarts", spine: true, on: own, run: operatorStopsSurviveRestarts},
		{name: "a killed healthd finishes a restart in the middle of its stop", spine: true, run: killedHealthdFinishesAStop},
		{name: "a killed healthd finishes a restart after its stop", run: killedHealthdFinishesARestart, cannot: map[string]string{
			"containerd": "a stop is its client's: nobody sends KILL while healthd is away"}},
		{name: "a group has one member down at once", spine: true, run: groupLimit},
		{name: "hold and reload", spine: true, run: holdAndReload},
		{name: "a shared network restarts with its owner", spine: true, run: sharedNetworkRestartsWithItsOwner},
		{name: "signals of an operator", run: signalsOfAnOperator, cannot: map[string]string{
			"containerd": "nerdctl's label tells that an operator has sent a signal, and not which"}},
		{name: "the policy after a failed probe", spine: true, run: policyAfterAFailedProbe},
		{name: "hooks and gates", spine: true, run: hooksAndGates},
		{name: "a stalled body is a failure", run: stalledBodyIsAFailure},
		{name: "every outlet follows readiness", spine: true, run: everyOutletFollowsReadiness},
		{name: "a fleet of two", spine: true, run: fleetOfTwo},
		{name: "services that only their own container reaches", spine: true, run: servicesInsideTheContainer},
	}
}
