package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// book is what is known of one backend.
type book struct {
	slots    map[string]string
	told     map[string]string // to this process
	planned  []member          // told last
	due      []command         // of the present plan
	lookAt   time.Time
	owners   map[string]string   // of servers
	shown    map[string]string   // slots that were recorded
	held     map[string]bool     // servers that were set aside by hand
	idle     map[runtime.Run]int // looks in a row
	eager    time.Time           // until then it is looked at again and again
	again    map[string]repeat   // by whom they are about: what was told last
	alone    string              // ID of the container that is the last one up
	missing  bool
	troubles map[string]*trouble // by whom they are about
}

func newBook() *book {
	return &book{
		slots: map[string]string{}, told: map[string]string{}, idle: map[runtime.Run]int{}, troubles: map[string]*trouble{},
		again: map[string]repeat{}, owners: map[string]string{},
	}
}

// close takes in what came of a plan.
func (l *link) close(name string, p *plan, failed map[string]string, began time.Time) {
	b, all, now := l.books[name], l.members[name], time.Now()
	b.planned = all
	wait := b.observe(p, all)
	b.noteTold(p, failed)
	took := now.Sub(began)
	switch {
	case p.built && len(b.due) > 0:
		b.lookAt, b.eager = now, now.Add(eagerFor)
	case len(b.due) > 0, wait, now.Before(b.eager):
		b.lookAt = now.Add(max(soonAfter, took))
	default:
		b.lookAt = now.Add(max(lookEvery, 100*took)) // a huge backend costs no more than a hundredth
	}
	l.tellSlots(b, p, all)
	b.countRepeats(b.due, failed, now)
	l.settleTroubles(b, p, b.due, failed, now)
	if len(all) == 0 && len(b.troubles) == 0 && !slices.ContainsFunc(p.servers, p.left) {
		delete(l.books, name)
	}
}

// noteTold keeps what agent checks send from now on.
func (b *book) noteTold(p *plan, failed map[string]string) {
	done := commandsBy(b.due)
	for server, ask := range p.telling {
		about := p.backend + "/" + server
		switch {
		case done[about] == "": // it waits
		case ask == "", failed[about] != "":
			delete(b.told, server)
		default:
			b.told[server] = ask
		}
	}
}

// tellSlots records which slots the containers have, as their names do not tell.
func (l *link) tellSlots(b *book, p *plan, all []member) {
	for i := range all {
		m := &all[i]
		if slot := p.slots[m.name]; slot != b.shown[m.name] && slot != "" {
			l.h.journal.Record(core.Event{Time: time.Now(), Container: m.name, Reason: EventServer, Message: fmt.Sprintf(
				"Container %s is server %s/%s of HAProxy at %s", m.name, p.backend, slot, l.socket.text)})
		}
	}
	b.shown = maps.Clone(p.slots)
}

// observe takes in what HAProxy shows of the members, and says whether a stop waits for
// the last request.
func (b *book) observe(p *plan, all []member) (wait bool) {
	up, alone := 0, (*server)(nil)
	for _, s := range p.servers {
		if s.takes() {
			up, alone = up+1, s
		}
	}
	b.alone = ""
	idle := make(map[runtime.Run]int)
	for i := range all {
		m := &all[i]
		s := p.server[m.name]
		if up == 1 && s == alone {
			b.alone = m.id
		}
		if m.awaits {
			wait = true
			if s == nil || !s.takes() && s.sessions == 0 {
				idle[m.run] = b.idle[m.run] + 1
			}
		}
	}
	b.idle = idle
	b.held = map[string]bool{}
	for _, s := range p.servers {
		if s.held() && !s.free() {
			b.held[s.name] = true
		}
	}
	return wait
}

// publish lets others know what HAProxy shows.
func (l *link) publish(at time.Time) {
	const sure = 2 // looks: who is on the way from one thread of HAProxy to another shows in the second
	alone := l.age > l.h.lingering
	r := &report{at: at, backends: map[string]bool{}, idle: map[runtime.Run]bool{}, last: map[string]string{}}
	for name, b := range l.books {
		r.backends[name] = !b.missing
		for run, looks := range b.idle {
			r.idle[run] = looks >= sure && alone
		}
		if b.alone != "" {
			r.last[b.alone] = name
		}
	}
	l.report.Store(r)
}
