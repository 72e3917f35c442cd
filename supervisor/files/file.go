package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// file is the state of one file. Only its goroutine uses it.
type file struct {
	*File
	p     *Publisher
	board *supervisor.Board

	loaded string // as entry.Loaded
	names  map[string]time.Time
	placed placed // what is in place
	tried  time.Time
	haste  haste
	failed failure
	told   stage // of the newest event
	others others

	lookTook time.Duration   // the newest look
	refused  map[string]bool // services that were told of
}

// placed is who is ready in a content.
type placed struct {
	content    digest
	ready      map[destination]bool // nil: nobody knows
	containers map[string]bool
}

func newFile(p *Publisher, board *supervisor.Board, f *File) *file {
	e := p.kept.of(f.Path)
	return &file{File: f, p: p, board: board, loaded: e.Loaded, names: e.Services, refused: map[string]bool{}}
}

// run writes the file until ctx ends.
func (f *file) run(ctx context.Context) {
	const idle = time.Hour // services are forgotten, too
	f.cleanUp()
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		changed := f.board.Changed()
		next := earliest(f.round(ctx), f.p.kept.again(time.Now()))
		wait := idle
		if !next.IsZero() {
			wait = max(time.Millisecond, min(idle, time.Until(next)))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-changed:
			rest(ctx, f.lookTook)
		case <-timer.C:
		}
	}
}

// rest leaves half of a core to others on a host where something changes all the time. What a look costs grows with the
// number of containers.
func rest(ctx context.Context, lookTook time.Duration) {
	const longest = time.Second
	select {
	case <-ctx.Done():
	case <-time.After(min(lookTook, longest)):
	}
}

// round does what is due, and returns when to look again; zero: when something changes.
func (f *file) round(ctx context.Context) (next time.Time) {
	f.p.known.unknown(f.Path) // before the look at the board: whoever is out then is not put in again
	if !f.board.Complete() {
		return time.Time{}
	}
	for ctx.Err() == nil {
		now := time.Now()
		s, next := f.look(now)
		f.lookTook = time.Since(now)
		if s == nil {
			return next
		}
		do, at := decide(&s.situation, f.MinInterval, now)
		switch do {
		case nothing:
			f.settle(s)
			return at
		case write:
			f.replace(ctx, s)
		case reload:
			f.reloadNow(ctx, s.content)
		}
	}
	return time.Time{}
}

// seen is a situation with what led to it.
type seen struct {
	situation
	snapshot *snapshot
	text     []byte
	target   string
	there    content
}

// look compares what the file is with what it should be. It returns nil if it cannot, and when to look again.
func (f *file) look(now time.Time) (*seen, time.Time) {
	if err := f.p.putBack(f.Path); err != nil {
		return nil, f.fail(atWrite, digest{}, err, now)
	}
	s := &seen{snapshot: f.snapshot(now)}
	var err error
	if s.text, err = f.Template.render(s.snapshot); err != nil {
		return nil, f.fail(atRender, digest{}, err, now)
	}
	s.target, err = Resolve(f.Path)
	if err == nil {
		s.there, err = readContent(s.target)
	}
	if err != nil {
		return nil, f.fail(atWrite, digest{}, err, now)
	}
	if f.failed.content == (digest{}) { // it was one of those above
		f.failed = failure{}
	}
	wanted, there := content{text: s.text}, s.there.digest()
	ready := s.snapshot.ready()
	f.haste = f.haste.at(now, f.MinInterval)
	f.forgetOthers(now)
	s.situation = situation{content: wanted.digest(), tried: f.tried, tired: f.haste.used >= maxHaste, failed: f.failed}
	s.same = s.there.exists && there == s.content
	if s.same {
		f.placed = placed{there, ready, s.snapshot.readyContainers()}
	} else if f.placed.content != there {
		f.noteOther(now)
		f.placed = placed{}
	}
	s.foreign = f.placed.ready == nil
	s.takesOut = s.foreign || takesOut(f.placed.ready, ready)
	s.owed = s.there.exists && f.Reload != nil && f.loaded != there.String()
	return s, time.Time{}
}

// others is how often something else has written the file over what was in place, of late.
type others struct {
	times int
	last  time.Time
}

const (
	manyOthers = 5                // an operator who edits the file does so once
	ofLate     = 10 * time.Minute // longer ago they do not count
)

// noteOther takes in that the file is not what this daemon has seen there. Another healthd with the same file changes it
// each time that this one has put its own content back.
func (f *file) noteOther(now time.Time) {
	if f.placed.ready == nil {
		return
	}
	if f.others = (others{f.others.times + 1, now}); f.others.times == manyOthers {
		text := fmt.Sprintf("Something else writes %s, too, and healthd puts its own content back each time: is it the publish_file of another healthd?", f.Path)
		f.p.record(core.EventFileFailed, "%s", text)
		f.p.problems.Set(f.Path+" of others", text)
	}
}

// forgetOthers ends the warning of others who have written nothing of late.
func (f *file) forgetOthers(now time.Time) {
	if f.others.times > 0 && now.Sub(f.others.last) > ofLate {
		f.others = others{}
		f.p.problems.Set(f.Path + " of others")
	}
}

// snapshot returns what the file should have, and remembers its services.
func (f *file) snapshot(now time.Time) *snapshot {
	all := f.board.Services()
	live := liveOf(all, f.Covers, func(name string) bool { _, known := f.names[name]; return known })
	names, changed := remember(f.names, live.names(), now)
	if f.names = names; changed {
		f.p.kept.update(f.Path, func(e *entry) { e.Services = names })
	}
	for name := range names {
		live.addEmpty(name)
	}
	live.sort()
	f.tellRefused(live.refused)
	return live
}

// settle takes in that nothing is to be done now.
func (f *file) settle(s *seen) {
	if s.same && !s.owed {
		f.succeed()
	}
	if f.failed.stage == noStage && !s.owed && !s.takesOut {
		f.p.known.is(f.Path, f.placed.containers)
	}
}

// fail takes in that something failed, and returns when to try it again.
func (f *file) fail(at stage, of digest, err error, now time.Time) time.Time {
	f.failed = f.failed.failed(at, of, now)
	f.p.metrics.up.WithLabelValues(f.Path).Set(0)
	f.p.problems.Set(f.Path, fmt.Sprintf(failureTexts[at], f.Path, err))
	if f.told != at {
		f.told = at
		f.p.record(core.EventFileFailed, failureTexts[at], f.Path, err)
	}
	return f.failed.again()
}

var failureTexts = map[stage]string{
	atRender: "Cannot render %s: %v: the file stays as it is",
	atWrite:  "Cannot write %s: %v: its readers go on with what they have; healthd keeps trying",
	atCheck:  "The check refuses %s: %v: the file stays as it was",
	atReload: "The reload for %s failed: %v: its reader goes on with what it has; healthd keeps trying",
}

// succeed takes in that the file is what it should be, and that its reader knows.
func (f *file) succeed() {
	f.p.metrics.up.WithLabelValues(f.Path).Set(1)
	f.p.problems.Set(f.Path)
	if f.failed = (failure{}); f.told != noStage {
		f.told = noStage
		f.p.record(core.EventFileBack, "%s is what it should be again", f.Path)
	}
}

// tellRefused tells once of each service that the file cannot have. Whoever may start containers can name any number.
func (f *file) tellRefused(services []refusal) {
	const most = 100
	for _, r := range services {
		if f.refused[r.service] || len(f.refused) >= most {
			continue
		}
		f.refused[r.service] = true
		f.p.record(core.EventFileFailed, "Service %q is not in %s: %s", clip(r.service), f.Path, r.why)
	}
}

// setLoaded keeps what the file's reader has read; empty: nobody knows.
func (f *file) setLoaded(loaded string) {
	if f.loaded != loaded {
		f.loaded = loaded
		f.p.kept.update(f.Path, func(e *entry) { e.Loaded = loaded })
	}
}

// reloadNow has the file's reader read it.
func (f *file) reloadNow(ctx context.Context, of digest) {
	if err := f.reloadOnce(ctx); err != nil {
		if ctx.Err() == nil {
			f.fail(atReload, of, err, time.Now())
		}
		return
	}
	f.setLoaded(of.String())
	f.failed = failure{}
}

func (f *file) reloadOnce(ctx context.Context) error {
	begun := time.Now()
	var before nginxLook
	if isNginx(f.Reload) {
		before = f.p.workers(f.Reload)
	}
	err := f.p.runCommand(ctx, f.Reload, f.Timeout)
	if err == nil && len(before.masters) > 0 {
		err = f.p.awaitWorkers(ctx, f.Reload, before)
	}
	if err == nil {
		f.p.metrics.reload.WithLabelValues(f.Path).Observe(time.Since(begun).Seconds())
	}
	return err
}

// errStopped is why a check ended that ctx has killed.
var errStopped = errors.New("healthd stops")
