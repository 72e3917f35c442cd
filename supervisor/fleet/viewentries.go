package fleet

import (
	"slices"
	"time"
)

// put takes in a value, and what it says of the key before.
func (v *view) put(r *record) {
	k, err := parseKey(r.name)
	if err == nil {
		err = v.take(k, r)
	}
	if err != nil {
		v.wrong.add(r.name, v.limits.wrong)
		if e := v.entries[r.name]; e != nil { // its host is about to write it again
			v.miss(e, v.ttl+graceExtra)
		} else {
			v.forgetWord(k)
		}
		return
	}
	delete(v.wrong.names, r.name)
}

// take takes in a value of a key.
func (v *view) take(k key, r *record) (err error) {
	e := &entry{key: k, name: r.name, size: len(r.name) + len(r.value), rev: r.rev}
	switch k.kind {
	case hostKey:
		e.host, err = decodeHost(r.value)
	case memberKey:
		e.member, err = decodeMember(r.value, k, v.local)
	case wordKey:
		var word wordValue
		if word, err = decodeWord(r.value); err == nil && k.host == v.self && k.balancer != v.self {
			v.words[k] = word
			v.out.words = true
		}
		return err
	case placeKey:
		_, err = decodePlace(r.value)
		return err
	case holdKey:
		_, err = decodeHold(r.value)
		return err
	}
	if err == nil && k.host != v.self {
		v.enter(e)
	}
	return err
}

// enter puts an entry in the place of the one before it, if there is room.
func (v *view) enter(e *entry) {
	old := v.entries[e.name]
	size, n := e.size, 1
	if old != nil {
		size, n = size-old.size, 0
	}
	if len(v.entries)+n > v.limits.keys || v.bytes+size > v.limits.bytes {
		if !v.over {
			v.over = true
			v.tell(eventError, "The fleet has more than %d keys or %d MB of hosts and members: the others are not shown", v.limits.keys, v.limits.bytes>>20)
		}
		if old != nil {
			v.remove(e.name)
		}
		return
	}
	if old != nil {
		v.leave(old)
	}
	v.entries[e.name] = e
	v.bytes += e.size
	v.hostOf(e.key.host).add(e)
	v.out.touched[e.key.host] = true
	if e.key.kind == memberKey {
		id := e.key.host + "/" + e.member.ID
		if v.shown[id] == nil {
			v.shown[id] = &shown{}
		}
		v.shown[id].entries = append(v.shown[id].entries, e)
		v.out.ids[id] = true
	}
}

// leave takes an entry out of everything that has it.
func (v *view) leave(e *entry) {
	delete(v.entries, e.name)
	delete(v.absent, e)
	v.bytes -= e.size
	v.hosts[e.key.host].drop(e)
	v.out.touched[e.key.host] = true
	if e.key.kind == memberKey {
		id := e.key.host + "/" + e.member.ID
		s := v.shown[id]
		s.entries = slices.DeleteFunc(s.entries, func(o *entry) bool { return o == e })
		v.out.ids[id] = true
	}
}

// remove takes in that a key is gone.
func (v *view) remove(name string) {
	delete(v.wrong.names, name)
	if e := v.entries[name]; e != nil {
		v.leave(e)
		return
	}
	if k, err := parseKey(name); err == nil {
		v.forgetWord(k)
	}
}

func (v *view) forgetWord(k key) {
	if _, ok := v.words[k]; ok {
		delete(v.words, k)
		v.out.words = true
	}
}

// miss takes in that a key is absent, after a while of live watch. A longer wait that has begun already goes on.
func (v *view) miss(e *entry, grace time.Duration) {
	if v.absent[e] && e.next == nil {
		return
	}
	e.next = nil
	e.gone = v.live.ran + grace
	v.absent[e] = true
}

// reborn returns the hosts whose key in a list is of another instance than the one that is known: their revisions have begun anew.
func (v *view) reborn(all []record) map[string]bool {
	found := map[string]bool{}
	for i := range all {
		if e := v.entries[all[i].name]; e != nil && e.key.kind == hostKey {
			listed, err := decodeHost(all[i].value)
			found[e.key.host] = err != nil || listed.Instance != e.host.Instance
		}
	}
	return found
}

// keepNewer says that the store, which went back, has an older value of a member than is known of the same instance: its host
// is about to write the newer one again.
func (v *view) keepNewer(r *record, reborn map[string]bool, grace time.Duration) bool {
	e := v.entries[r.name]
	if e == nil || e.key.kind != memberKey || reborn[e.key.host] {
		return false
	}
	listed, err := decodeMember(r.value, e.key, v.local)
	if err != nil || listed.Revision >= e.member.Revision {
		return false
	}
	e.next = &record{name: r.name, value: slices.Clone(r.value), rev: r.rev, lease: r.lease}
	e.gone = v.live.ran + grace
	v.absent[e] = true
	return true
}

func (v *view) forgetWords() {
	if len(v.words) > 0 {
		clear(v.words)
		v.out.words = true
	}
}
