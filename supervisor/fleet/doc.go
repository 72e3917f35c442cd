// Package fleet lets many hosts serve one another's containers, by way of etcd. Each publishes its own members there under one
// lease, and shows those of the others on its Board, from where the outlets serve them as they serve local ones.
//
//	                    ┌─ keeper ──── lease, name ────▶┐
//	Board ── Changed ──▶ publisher ─ what differs ─────▶│ etcd, PREFIX/v1/
//	Board ◀─ ShowRemote ─ watcher ◀─ list, then watch ──┘
//	                        │ words of others
//	HAProxy, files ── words ┴▶ closer ── Drained, Withdrawn ──▶ Supervisor
//
// Nothing local waits for etcd. While it is away what was known last goes on being served, also by a daemon that is started
// then. Only an end of a lease that a live watch reports, or an absence that lasts, removes a member: see view.go.
//
//	key.go, value.go        what is in the store; class.go: what its errors mean
//	view.go, view….go       the fold of what the store says of others, pure; wrong.go: keys that are none of healthd's
//	watch.go, list.go       the watch and the list; watchshow.go: what the board shows of them
//	lease.go                the lease and the name of this host
//	wanted.go, own.go       what the store should have of this host, and what it has; publish.go: writes what differs
//	words.go                the loop of drains over hosts
//	places.go               places for restarts, as the loop sees them; placesround.go: takes them and gives them back
//	holds.go                holds of services on all hosts
//	self.go, keptview.go    what outlives the daemon, of this host and of others
//	client.go, certificate.go
//	fleet.go, status.go, problems.go, events.go, metrics.go
//
// All times are of this host. Those of others are names of runs, and never compared with it.
package fleet
