package supervisor

// gone has the names and IDs that were on a board, or in the journal of an earlier daemon, and are no more, while
// the first list of some engine is missing: who asks for one of them need not wait for that. One goroutine writes
// it, any may read it.
type gone struct {
	runtimes table[string, string] // name or ID → where it was
	n        int                   // how many; the writer's own
}

// maxGone bounds how many are kept: an engine may be away for months. Who asks for another one waits for its list.
const maxGone = 16384

func (g *gone) note(runtime string, keys ...string) {
	for _, key := range keys {
		if _, found := g.runtimes.get(key); !found {
			if g.n >= maxGone {
				return
			}
			g.n++
		}
		g.runtimes.set(key, runtime)
	}
}

// prune forgets all of them once no list is missing.
func (g *gone) prune(synced bool) {
	if g.n == 0 || !synced {
		return
	}
	g.n = 0
	for key := range g.runtimes.all {
		g.runtimes.remove(key)
	}
}

// noteGone notes names and the ID of a container of this host that is gone.
func (b *Board) noteGone(runtime string, keys ...string) {
	if !b.Synced() {
		b.gone.note(runtime, keys...)
	}
}

// Gone says that the container of this host with that name or ID was there and is no more, whatever engines may
// have whose first list is missing. Its own engine has had one: else a new container may have the name. It is false
// when the board is Synced: then all that it does not have is gone.
func (b *Board) Gone(key string) bool {
	name, found := b.gone.runtimes.get(key)
	if !found {
		return false
	}
	r, _ := b.runtimes.get(name)
	return r.Synced
}

// goneRemotely is Gone for HOST:CONTAINER of another host.
func (b *Board) goneRemotely(name string) bool {
	_, found := b.remote.gone.runtimes.get(name)
	return found && b.remoteComplete()
}
