package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
)

const (
	aliveEvery = 200 * time.Millisecond // how often it is looked whether HAProxy is still the same process
	lookEvery  = time.Second            // and whether it shows what it was told
	soonAfter  = 50 * time.Millisecond  // after something was told, and while a stop waits for the last request
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// link is one HAProxy that is told. Only the goroutine of run touches what it keeps,
// but for the report.
type link struct {
	h       *HAProxy
	socket  socket
	changed chan time.Time // of the board; has room for one

	members map[string][]member // by backend, as the board has them
	stale   bool                // the board has others
	since   time.Time           // and has had them since then
	process process
	books   map[string]*book // by backend
	lost    bool

	report pointer
}

// book is what is known of one backend.
type book struct {
	slots    map[string]string
	told     map[string]string // to this process
	planned  []member          // told last
	due      []command         // of the present plan
	lookAt   time.Time
	shown    map[string]string   // slots that were recorded
	idle     map[runtime.Run]int // looks in a row
	alone    string              // ID of the container that is the last one up
	missing  bool
	troubles map[string]*trouble // by whom they are about
}

func newLink(h *HAProxy, s socket) *link {
	return &link{h: h, socket: s, changed: make(chan time.Time, 1), stale: true, books: map[string]*book{}}
}

// run tells HAProxy until ctx ends.
func (l *link) run(ctx context.Context, s Supervisor) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	retry := retryFirst
	for ctx.Err() == nil {
		err := l.round(ctx, s)
		if ctx.Err() != nil {
			return
		}
		l.heard(err)
		if err != nil {
			timer.Reset(retry)
			retry = min(2*retry, retryMost)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			continue
		}
		retry = retryFirst
		timer.Reset(l.pause(time.Now()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case at := <-l.changed:
			l.stale, l.since = true, at
		}
	}
}

// pause returns how long nothing is to be done when nothing changes.
func (l *link) pause(now time.Time) time.Duration {
	d := aliveEvery
	for _, b := range l.books {
		d = min(d, b.lookAt.Sub(now))
	}
	return max(d, time.Millisecond)
}

// heard tells when HAProxy could not be told anything, and when it can be again.
func (l *link) heard(err error) {
	l.h.metrics.up(l.socket, err == nil)
	switch {
	case err != nil && !l.lost:
		l.record(EventLost, "HAProxy at %s cannot be told anything, what it was told last stays: %v", l.socket.text, err)
	case err == nil && l.lost:
		l.record(EventBack, "HAProxy at %s can be told again", l.socket.text)
	}
	l.lost = err != nil
	if l.lost {
		l.report.Store(nil)
	}
}

func (l *link) record(reason, format string, args ...any) {
	l.h.journal.Record(supervisor.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// round looks at what HAProxy shows where that is due, and makes it what it is to be.
func (l *link) round(ctx context.Context, s Supervisor) error {
	select {
	case at := <-l.changed:
		l.stale, l.since = true, at
	default:
	}
	complete := s.Board().Synced() // before the views: who comes in between is no reason to clear
	if l.stale {
		l.members, l.stale = members(s.Board().Views()), false
	}
	began := time.Now()
	due := l.due(began)
	shows, err := l.look(ctx, due)
	if err != nil {
		l.stale = true
		return err
	}
	var commands []command
	plans := make(map[string]*plan, len(shows))
	for name, servers := range shows {
		b := l.books[name]
		p := &plan{backend: name, servers: servers, agent: l.h.agent, complete: complete, slots: b.slots, told: b.told}
		p.make(l.members[name])
		plans[name], b.due = p, b.dueOf(p, began)
		commands = append(commands, b.due...)
	}
	failed, err := l.carryOut(ctx, commands)
	if err != nil {
		l.forget()
		return err
	}
	l.since = time.Time{}
	for name, p := range plans {
		l.close(name, p, failed, began)
	}
	l.publish(began)
	l.h.settle(ctx, s, l.members)
	return nil
}

// due returns the backends that are to be looked at.
func (l *link) due(now time.Time) []string {
	for name := range l.members {
		if l.books[name] == nil {
			l.books[name] = newBook()
		}
	}
	var due []string
	for name, b := range l.books {
		if !now.Before(b.lookAt) || !slices.Equal(b.planned, l.members[name]) {
			due = append(due, name)
		}
	}
	slices.Sort(due)
	return due
}

func newBook() *book {
	return &book{
		slots: map[string]string{}, told: map[string]string{}, idle: map[runtime.Run]int{}, troubles: map[string]*trouble{},
	}
}

// look asks HAProxy what it shows of these backends, or of all when it is not the
// process that was told before.
func (l *link) look(ctx context.Context, due []string) (map[string][]*server, error) {
	answers, err := l.ask(ctx, append([]string{"show info"}, shows(due)...))
	if err != nil {
		return nil, err
	}
	p, err := readInfo(answers[0])
	if err != nil {
		return nil, err
	}
	answers = answers[1:]
	if p != l.process {
		if l.process != (process{}) {
			l.record(EventBack, "HAProxy at %s is a new process, it is told everything again", l.socket.text)
		}
		l.forget()
		if due, err = l.discover(ctx); err != nil {
			return nil, err
		}
		if answers, err = l.ask(ctx, shows(due)); err != nil {
			return nil, err
		}
		l.process = p
	}
	return l.read(due, answers)
}

// shows are the questions about backends: two for each.
func shows(backends []string) []string {
	var all []string
	for _, name := range backends {
		all = append(all, "show servers state "+name, "show stat "+name+" 4 -1")
	}
	return all
}

// discover finds the backends where an earlier daemon may have left servers.
func (l *link) discover(ctx context.Context) ([]string, error) {
	answers, err := l.ask(ctx, []string{"show servers state"})
	if err != nil {
		return nil, err
	}
	backends, err := readServers(answers[0])
	if err != nil {
		return nil, err
	}
	p := plan{agent: l.h.agent}
	for name, servers := range backends {
		if l.books[name] == nil && slices.ContainsFunc(servers, p.left) {
			l.books[name] = newBook()
		}
	}
	return l.due(time.Now()), nil
}

// read understands the answers about backends. One that is not there is a trouble, and
// none of the others'.
func (l *link) read(due, answers []string) (map[string][]*server, error) {
	found := make(map[string][]*server, len(due))
	for i, name := range due {
		state, stat := answers[2*i], answers[2*i+1]
		b := l.books[name]
		if b.missing = state == "Can't find backend." || stat == "No such proxy."; b.missing {
			l.absent(name, b)
			continue
		}
		backends, err := readServers(state)
		if err != nil {
			return nil, err
		}
		servers := backends[name]
		if err := readStat(stat, servers); err != nil {
			return nil, err
		}
		found[name] = servers
	}
	return found, nil
}

// absent takes in that HAProxy has no such backend.
func (l *link) absent(name string, b *book) {
	now := time.Now()
	b.planned, b.lookAt = l.members[name], now.Add(lookEvery)
	if len(b.planned) == 0 {
		b.troubles = map[string]*trouble{}
		return
	}
	l.trouble(b, name, "there is no backend "+name, "", now)
}

// ask is a conversation in which nobody may be refused.
func (l *link) ask(ctx context.Context, commands []string) ([]string, error) {
	answers, err := l.socket.talk(ctx, commands)
	if err != nil {
		return nil, err
	}
	if slices.Contains(answers, denied) {
		return nil, errDenied
	}
	return answers, nil
}

const denied = "Permission denied"

var errDenied = errors.New("it refuses commands (Permission denied): its stats socket needs level admin")

// carryOut gives HAProxy the commands, and returns the first thing that each server's
// have failed with.
func (l *link) carryOut(ctx context.Context, commands []command) (map[string]string, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	lines := make([]string, len(commands))
	for i, c := range commands {
		lines[i] = c.text
	}
	answers, err := l.ask(ctx, lines)
	if err != nil {
		return nil, err
	}
	failed := map[string]string{}
	for i, c := range commands {
		if _, before := failed[c.about]; !c.fine(answers[i]) && !before {
			failed[c.about] = fmt.Sprintf("%q is answered with %q", c.text, clip(answers[i]))
		}
	}
	l.h.metrics.told(l.socket, len(commands), len(failed))
	if !l.since.IsZero() {
		l.h.metrics.took(time.Since(l.since))
	}
	return failed, nil
}

// forget lets everything be told again.
func (l *link) forget() {
	l.process = process{}
	for _, b := range l.books {
		clear(b.told)
		clear(b.idle)
		b.planned, b.lookAt = nil, time.Time{}
	}
}

// close takes in what came of a plan.
func (l *link) close(name string, p *plan, failed map[string]string, began time.Time) {
	b, all, now := l.books[name], l.members[name], time.Now()
	b.planned = all
	took := now.Sub(began)
	b.lookAt = now.Add(max(lookEvery, 100*took)) // a huge backend costs no more than a hundredth
	wait := b.observe(p, all)
	if len(p.commands) > 0 || wait {
		b.lookAt = now.Add(max(soonAfter, took))
	}
	l.tellSlots(b, p, all)
	l.settleTroubles(b, p, b.due, failed, now)
	if len(all) == 0 && len(b.troubles) == 0 && !slices.ContainsFunc(p.servers, p.left) {
		delete(l.books, name)
	}
}

// tellSlots records which slots the containers have, as their names do not tell.
func (l *link) tellSlots(b *book, p *plan, all []member) {
	for i := range all {
		m := &all[i]
		if slot := p.slots[m.name]; slot != b.shown[m.name] && slot != "" {
			l.h.journal.Record(supervisor.Event{Time: time.Now(), Container: m.name, Reason: EventServer, Message: fmt.Sprintf(
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
	return wait
}

// publish lets others know what HAProxy shows.
func (l *link) publish(at time.Time) {
	const sure = 2 // looks: who is on the way from one thread of HAProxy to another shows in the second
	r := &report{at: at, backends: map[string]bool{}, idle: map[runtime.Run]bool{}, last: map[string]string{}}
	for name, b := range l.books {
		r.backends[name] = !b.missing
		for run, looks := range b.idle {
			r.idle[run] = looks >= sure
		}
		if b.alone != "" {
			r.last[b.alone] = name
		}
	}
	l.report.Store(r)
}
