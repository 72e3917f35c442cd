package fleet

import (
	"slices"
	"sync"
)

// ownKeys is what the store has of this host, as far as that is known: by what etcd has confirmed and by what the watch shows.
// Of two reports of a key the one of the higher revision is true.
type ownKeys struct {
	mu   sync.Mutex
	keys map[string]ownKey
}

type ownKey struct {
	body    string // see bodyOf
	lease   int64
	rev     int64
	deleted bool
	foreign bool // its value is none of healthd's: it may be overwritten, and is never deleted
}

func ownKeyOf(r *record) ownKey {
	return ownKey{body: bodyOf(string(r.value)), lease: r.lease, rev: r.rev, deleted: r.deleted, foreign: !r.deleted && !isValue(r)}
}

// isValue says whether a value of one of this host's keys is healthd's.
func isValue(r *record) bool {
	k, err := parseKey(r.name)
	if err == nil {
		switch k.kind {
		case hostKey:
			_, err = decodeHost(r.value)
		case memberKey:
			_, err = decodeMember(r.value, k, true)
		default:
			_, err = decodeWord(r.value)
		}
	}
	return err == nil
}

// isOwn says whether nobody else writes a key.
func isOwn(k key, host string) bool {
	return (k.kind == hostKey || k.kind == memberKey) && k.host == host || k.kind == wordKey && k.balancer == host
}

func (o *ownKeys) set(name string, k ownKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k.rev >= o.keys[name].rev {
		o.keys[name] = k
	}
}

// wrote takes in that etcd has confirmed a put.
func (o *ownKeys) wrote(name, value string, lease, rev int64) {
	o.set(name, ownKey{body: bodyOf(value), lease: lease, rev: rev})
}

// deleted takes in that etcd has confirmed a deletion.
func (o *ownKeys) deleted(name string, rev int64) { o.set(name, ownKey{rev: rev, deleted: true}) }

// saw takes in what the watch shows.
func (o *ownKeys) saw(r *record) {
	o.set(r.name, ownKeyOf(r))
}

// listed takes in all keys of this host. back says that the store went back: then nothing else counts.
func (o *ownKeys) listed(all []record, revision int64, back bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := map[string]ownKey{}
	for i := range all {
		r := &all[i]
		next[r.name] = ownKeyOf(r)
	}
	for name, k := range o.keys {
		if !back && k.rev > revision {
			next[name] = k // written since
		}
	}
	o.keys = next
}

// unknown says that nobody knows whether keys were written.
func (o *ownKeys) unknown(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		delete(o.keys, name)
	}
}

// isThere says whether the store has a key.
func (o *ownKeys) isThere(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.keys[name]
	return ok && !k.deleted
}

// isUnder says whether the store has a key under a lease.
func (o *ownKeys) isUnder(name string, lease int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.keys[name]
	return ok && !k.deleted && k.lease == lease
}

// has says whether the store has a key with that body.
func (o *ownKeys) has(name, body string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.keys[name]
	return ok && !k.deleted && k.body == body
}

// diff returns what has to be put and deleted, so that the store has what is wanted, all of it under one lease. A
// member is deleted if its container is known: see wanted.
func (o *ownKeys) diff(wanted map[string]string, lease int64, known func(id string) bool) (puts, deletes []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, body := range wanted {
		if k, ok := o.keys[name]; !ok || k.deleted || k.body != body || k.lease != lease {
			puts = append(puts, name)
		}
	}
	for name, k := range o.keys {
		if _, ok := wanted[name]; !ok && !k.deleted && !k.foreign && (isWord(name) || known(idIn(k.body))) {
			deletes = append(deletes, name)
		}
	}
	slices.Sort(puts)
	slices.Sort(deletes)
	return puts, deletes
}

// idIn returns the ID of the container that a member's body tells of; empty: it tells of none.
func idIn(body string) string {
	var v memberValue
	_ = decode([]byte(body), &v)
	return v.ID
}

func isWord(name string) bool {
	k, err := parseKey(name)
	return err == nil && k.kind == wordKey
}

// members returns how many members of this host the store has.
func (o *ownKeys) members() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, k := range o.keys {
		if len(name) > len(memberKey) && name[:len(memberKey)] == string(memberKey) && !k.deleted && !k.foreign {
			n++
		}
	}
	return n
}
