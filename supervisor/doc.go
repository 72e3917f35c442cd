// Package supervisor keeps containers healthy. One goroutine, Supervisor.Run, owns all
// state. For each message it asks package core for a decision and carries the decision
// out in goroutines, which report back by message.
//
//	runtime.Watcher ─ Deliver ─┐                ┌─▶ probes, hooks, calls to the engine:
//	people ─ Restart, Hold … ──┼▶ inbox ─▶ loop ┤   one goroutine each, which sends its
//	outlets ─ Drained, Withdrawn ┘          │   │   result to the inbox, a probe's to answers
//	timers: a heap of due times ───────────▶│   └─▶ Journal, Store, Publisher: never block
//	                                        ▼
//	                           core.Step for one container
//	                                        ▼
//	                           Board: newest core.View of each container, for outlets
//
// Package core decides for one container. This package decides what concerns several:
// groups, the restart budget of the host, identities that survive re-creation, reloads,
// and engines that are lost and come back. Package runtime knows what a container is,
// package prober how to probe it, and the outlet packages below this one what users see.
//
//	supervisor.go  Supervisor, its Config, what it needs of engines and probers
//	loop.go        Run, one turn of the loop, one step of one container
//	backlog.go     what concerns many containers at once, in slices
//	entry.go       entry: one supervised container; entryset.go, entryheap.go: many
//	engines.go     what runtimes report of containers: inspections and causes
//	enginelife.go  what they report of themselves: connected, synced, lost
//	requests.go    what people and load balancers ask: Restart, Hold, Resume, SetGate,
//	               Drained, Withdrawn, Ask, Ping
//	effects.go     what a step asks for: probes, hooks, stops, starts, inspections
//	occasion.go    failures that the Recorder is told of; flightrecord.go: what it makes of them
//	recent.go      the newest results of each probe
//	guard.go       which failed containers wait: grouplimit.go, budget.go; recheck.go: who
//	               need not wait any more
//	keep.go        what outlives a daemon and a re-creation
//	reload.go      new specs for the containers that run
//	queue.go       due times
//	board.go       the newest views; services.go, endpoints.go: by service
//	store.go, publish.go   outlets that the loop calls: Store, Journal, Publisher
package supervisor
