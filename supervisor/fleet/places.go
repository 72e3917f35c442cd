package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

const (
	placesAwayAfter = 3 * time.Second // without an answer, or without a lease, the store counts as unreachable
	placesAgain     = 500 * time.Millisecond
	placesStale     = 100 * time.Millisecond
	placesLook      = 2 * time.Second        // while somebody waits, whatever the watch says
	placesSpread    = 100 * time.Millisecond // hosts that wait for one place try at different times
	settledAfter    = 5 * time.Second        // from when all containers are listed until all who want a place have said so
	settledAnyway   = 15 * time.Minute       // an outage lasts no longer
)

// places are the places of groups whose limit is over all hosts. Who holds one has its key, under the lease of its host: a host
// that dies gives it back when the lease ends. One transaction takes the first free place, so that never more are taken than there
// are. It implements supervisor.Places: those methods look at memory only.
type places struct {
	f     *Fleet
	board *supervisor.Board
	wake  chan struct{} // has room for one
	tell  chan struct{} // has room for one
	begun time.Time

	mu      sync.Mutex
	wants   map[string]*want // by container ID
	order   uint64
	spots   map[string]map[int]spot // what the store has, by group and number
	names   map[string]string       // who holds the places of a group, for people; dropped when that changes
	ours    map[string]bool         // containers for which this daemon has wanted a place
	failing time.Time               // since when no call has come through; zero: the last one has
	synced  time.Time               // since when all containers are listed
	shown   placesShown
}

// want is a place that the loop wants.
type want struct {
	id, group string
	share     core.Share
	order     uint64
	n         int // of its place
	has       bool
}

// spot is a place as the store has it. A free one is kept for its revision.
type spot struct {
	free       bool
	leaving    bool // it is being given back: nobody may count on it, whatever becomes of that
	rev, lease int64
	text       string
	value      placeValue
}

// placesShown is what the loop was told of.
type placesShown struct {
	held        int
	fresh, away bool
}

func newPlaces(f *Fleet) *places {
	p := &places{
		f: f, wake: make(chan struct{}, 1), tell: make(chan struct{}, 1), wants: map[string]*want{}, spots: map[string]map[int]spot{},
		names: map[string]string{}, ours: map[string]bool{},
	}
	f.subscribe(p.told)
	return p
}

// Places returns the places of the fleet, for supervisor.Config.
func (f *Fleet) Places() supervisor.Places { return f.places }

// groupName returns what a group is called in keys: its name, or what stands for one that is too long for a key or has characters that
// cannot be printed. Labels make it.
func groupName(group string) string {
	if checkName("group", group) == nil {
		return group
	}
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:])
}

// Want implements supervisor.Places.
func (p *places) Want(id, group string, share core.Share) {
	group = groupName(group)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.wants[id]
	if w == nil {
		p.order++
		w = &want{id: id, group: group, order: p.order}
		p.wants[id] = w
		if !p.settledLocked(time.Now()) {
			p.ours[id] = true
		}
		p.settleLocked()
	}
	w.share = share
	signal(p.wake)
}

// Release implements supervisor.Places.
func (p *places) Release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wants, id)
	p.settleLocked()
	signal(p.wake)
}

// State implements supervisor.Places.
func (p *places) State(id string) supervisor.PlaceState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := supervisor.PlaceState{Unreachable: p.awayLocked(time.Now())}
	w := p.wants[id]
	switch {
	case w == nil:
	case !w.has:
		s.On = p.namesLocked(w.group)
	case !p.fresh(time.Now()):
		signal(p.f.lease.wake) // it is renewed right now
		signal(p.wake)
	default:
		s.Granted = true
	}
	return s
}

// fresh says whether the lease was renewed so lately that it lives until a restart has begun. The clock that does not
// stand still while the host sleeps counts as well.
func (p *places) fresh(now time.Time) bool {
	h, ok := p.f.lease.now()
	age := max(now.Sub(h.renewed), now.Round(0).Sub(h.renewed.Round(0)))
	return ok && h.claimed && !h.renewed.IsZero() && age < p.f.config.TTL/2
}

func (p *places) awayLocked(now time.Time) bool {
	return !p.failing.IsZero() && now.Sub(p.failing) >= placesAwayAfter
}

// namesLocked returns who holds the places of a group.
func (p *places) namesLocked(group string) string {
	if text, ok := p.names[group]; ok {
		return text
	}
	var names []string
	for _, s := range p.spots[group] {
		if !s.free {
			names = append(names, p.nameOf(&s.value))
		}
	}
	slices.Sort(names)
	text := ""
	if len(names) > 0 {
		text = names[0]
	}
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	p.names[group] = text
	return text
}

func (p *places) nameOf(v *placeValue) string {
	if p.board != nil && v.Host == p.f.config.Host {
		if view := p.board.ByID(v.ID); view != nil {
			return p.board.NameOf(view.Container)
		}
	} else if p.board != nil {
		if m, ok := p.board.Member(v.Host + "/" + v.ID); ok {
			return m.RemoteName()
		}
	}
	return v.Host + ":" + v.ID[:min(12, len(v.ID))]
}

// told takes in what the store has.
func (p *places) told(records []record, list bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.spots
	if list { // what was taken since comes with the watch
		p.spots, p.names = map[string]map[int]spot{}, map[string]string{}
	}
	freed := list
	for i := range records {
		r := &records[i]
		if k, err := parseKey(r.name); err == nil && k.kind == placeKey {
			value, err := decodePlace(r.value)
			s := spot{free: r.deleted, rev: r.rev, lease: r.lease, text: string(r.value), value: value}
			if old := before[k.group][k.n]; old.rev == s.rev {
				s.leaving = old.leaving
			}
			p.setLocked(k.group, k.n, s)
			freed = freed || r.deleted || err != nil
		}
	}
	if back := p.settleLocked(); len(back) > 0 || freed && len(p.wants) > 0 {
		signal(p.wake)
	}
}

func (p *places) setLocked(group string, n int, s spot) {
	if p.spots[group] == nil {
		p.spots[group] = map[int]spot{}
	}
	if s.rev < p.spots[group][n].rev {
		return
	}
	p.spots[group][n] = s
	delete(p.names, group)
	for _, w := range p.wants {
		if w.group == group {
			signal(p.tell)
			break
		}
	}
}

// mine says whether a place is this host's.
func (p *places) mine(s *spot) bool {
	return !s.free && s.value.Host == p.f.config.Host && s.value.Instance == p.f.self.instance()
}

// settleLocked finds out who holds a place, and returns what is to be given back: what nobody wants, what is under another lease,
// and a second one. What an earlier daemon held is given back only when all who want a place have said so.
func (p *places) settleLocked() (back []key) {
	for _, w := range p.wants {
		w.has = false
	}
	h, _ := p.f.lease.now()
	for group, spots := range p.spots {
		for n, s := range spots {
			if !p.mine(&s) {
				continue
			}
			switch w := p.wants[s.value.ID]; {
			case s.leaving:
				back = append(back, key{kind: placeKey, group: group, n: n})
			case w == nil && !p.ours[s.value.ID] && !p.settledLocked(time.Now()):
			case w == nil || w.group != group || w.has || s.lease != int64(h.id):
				back = append(back, key{kind: placeKey, group: group, n: n})
			default:
				w.has, w.n = true, n
			}
		}
	}
	return back
}

func (p *places) settledLocked(now time.Time) bool {
	return !p.synced.IsZero() && now.Sub(p.synced) >= settledAfter || !p.begun.IsZero() && now.Sub(p.begun) >= settledAnyway
}

// held is how many places this host holds.
func (p *places) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.held
}
