// Package files writes files that say which members of services are ready, for those who read files: nginx, Caddy,
// Traefik, Envoy, Prometheus, HAProxy and others. It checks them, reloads their readers, and tells the supervisor when no
// reader sends new requests to a container that is to be stopped.
//
//	Board ── Changed ──▶ file.run, one goroutine for each file, which owns its state
//	                       snapshotOf: services → plain data that can break no syntax
//	                       render:     data → content, in bounded time and memory
//	                       decide:     what is on the disk, what should be → write, reload, or when to look again
//	                       replace:    candidate, check, rename, reload
//	                             │ knowledge: whom the file's reader knows as ready
//	                             ▼
//	                     tellWithdrawn ──▶ Supervisor.Withdrawn
//
// A file is compared with what it should be, and a reload is owed unless its reader is known to have read exactly what is
// there. So changes that come and go cost nothing, and whatever moment a daemon is killed at, the next one ends right.
// The file is replaced, never written in place, emptied or removed.
//
//	files.go     Publisher, File; crew.go: a goroutine for each; file.go: what it does; decide.go: what that is now
//	data.go      what templates get; render.go, guard.go, functions.go: how they run; shipped.go, try.go
//	replace.go   the way of a new content; disk.go: candidates, links, owners; nginx.go: whether a reload was one
//	keep.go      what outlives the daemon
//	withdrawn.go who is out
package files
