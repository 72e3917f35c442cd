// Package supervisor keeps containers healthy. One goroutine, Supervisor.Run, owns all
// state. It feeds package core, which decides, and carries the decisions out in
// goroutines that report back by message. It leaves what a container is to package
// runtime, how to ask it to package prober, and what the world sees to the outlets
// below it.
//
//	runtime.Watch ─ Deliver ─┐                  ┌─▶ probes, hooks, calls to the engine:
//	people ─ Restart, Hold ──┼─▶ inbox ─▶ loop ─┤   a goroutine each, which reports to
//	load balancers ─ Drained ┘            │     │   the inbox when it is done
//	timers: a heap of due times ─────────▶│     └─▶ Journal, Store, Publisher: never wait
//	                                      ▼
//	                          core.Step for one container
//	                                      ▼
//	                          Board: newest core.View of each container, for outlets
//
// What concerns more than one container is decided here: the guard (groups and the
// budget of the host), identities that survive re-creation, reloads, engines that are
// lost and come back.
package supervisor
