// Package core decides what healthd does with one container. It is a pure state
// machine: it has no clock, no I/O, no goroutine and no log, so the same inputs always
// lead to the same decisions. Package supervisor owns the states, feeds the inputs and
// carries the effects out; package configs makes the specs; outlets read views.
//
//	        Spec   what the user wants            Container   what the engine last said
//	          │                                       │
//	Input ────┴──────────▶  Step(spec, container, state, input, now)
//	engine: Observed Signalled Died …   │
//	probes: ProbeAnswered HookEnded     ├─▶ State    what is known now, in groups
//	people: RestartRequested Hold… Gate │            by how long each fact lives
//	time:   Tick at NextTick(state)     │
//	                                    └─▶ Effects  what the caller has to do, in order:
//	                                                 RunProbe RunHook StopContainer
//	                                                 StartContainer InspectContainer …
//
//	State + Container + Spec ─▶ View     what people, load balancers and metrics see
//	State                    ─▶ Memory   what outlives the daemon, and back
//
// A step reads from top to bottom (step.go): take the input in, decide whether the run
// is to be stopped, publish readiness, call the engine, run hooks, arm probes.
package core
