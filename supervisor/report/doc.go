// Package report tells how healthy services were over time: for which part of it they were
// ready, how often they had an outage, what restarted them, and how soon a failure was found.
//
//	supervisor.Board ── Changed, views ──▶ factsOf ─┐
//	                                                ├─▶ ledger: hours and days of each service
//	journal ── After: Unhealthy, with Detected ─────┘        │                    │
//	                                                         │ once a minute      │ when asked
//	next daemon ◀── Open ── report.json.gz ◀── Keeper.Run ◀──┘                    ▼
//	                                               healthd report, /v1/report, /metrics
//
// The ledger is pure: it is told what the board shows and when, by the wall clock and by a
// clock that nobody sets. Time is counted in the phase in which a service was since the look
// before; the views tell the moment of a change. Time in which nobody looked, as between two
// daemons, is not observed: it counts neither as ready nor as an outage.
//
// What is ready is decided by package core. This package does not judge, it counts.
package report
