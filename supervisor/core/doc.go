// Package core decides what healthd does with one container. It is a pure state
// machine: it has no clock, no I/O, no goroutine and no log, so the same inputs always
// lead to the same decisions. Package supervisor owns the states, feeds the inputs and
// carries out the effects. Package configs makes the specs. The outlets read views.
//
//	        Spec   what the user wants            Container   what the engine last said
//	          │                                       │
//	Input ────┴──────────▶  Step(spec, container, state, input, now)
//	engine: Observed Signalled Died …   │
//	probes: ProbeAnswered HookEnded     ├─▶ State    what healthd knows now, in groups
//	people: RestartRequested Hold… Gate │            by how long each fact holds
//	time:   Tick at NextTick(state)     │
//	                                    └─▶ Effects  what the caller has to do, in order:
//	                                                 RunProbe RunHook StopContainer
//	                                                 StartContainer InspectContainer …
//
//	State + Container + Spec ─▶ View     what people, load balancers and metrics see
//	State                   ◀─▶ Memory   what the journal keeps for the next daemon
//
// Step (step.go) reads from top to bottom: apply the input, decide whether to stop the
// run, update readiness, call the engine, run hooks, schedule probes. Each part has a file
// with methods of the stepper. Below them are state.go and a file for each group of facts
// (engine, run, action, ending, conditions, lasting, gate, health), which know nothing of
// steps, and at the bottom spec.go.
package core
