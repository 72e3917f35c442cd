package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// candidateWord stands in an argument of a check for the path of the candidate.
const candidateWord = "{candidate}"

// checksCandidate says that the check looks at a candidate, and not at what is in place.
func (f *File) checksCandidate() bool {
	return slices.ContainsFunc(f.Check, func(word string) bool { return strings.Contains(word, candidateWord) })
}

// replace puts a new content in place, if the check takes it.
func (f *file) replace(ctx context.Context, s *seen) {
	now := time.Now()
	if now.Before(f.tried.Add(f.MinInterval)) {
		f.haste.used++
	}
	f.tried = now
	candidate, err := newCandidate(candidatePlaces(f.p.config.StateDir, s.target), hiddenName(f.Path), s.text, &s.there)
	if err != nil {
		f.fail(atWrite, s.content, withAdvice(err, s.target), now)
		return
	}
	if f.checksCandidate() {
		if err := f.check(ctx, candidate); err != nil {
			_ = os.Remove(candidate)
			f.refuse(ctx, s, err)
			return
		}
	}
	loaded := f.loaded
	f.setLoaded("") // before it is in place: a daemon that is killed must not leave a file that nobody has read for one that was
	inPlace := f.Check != nil && !f.checksCandidate()
	if inPlace {
		f.keepOld(s)
	}
	if err := putInPlace(candidate, s.target, s.text, &s.there); err != nil {
		if inPlace {
			f.p.forgetOld(f.Path)
		}
		f.fail(atWrite, s.content, withAdvice(err, s.target), now)
		return
	}
	if inPlace {
		if err := f.check(ctx, ""); err != nil {
			f.undo(ctx, s, loaded, err)
			return
		}
		f.p.forgetOld(f.Path)
	}
	f.placed = placed{s.content, s.snapshot.ready(), s.snapshot.readyContainers()}
	f.p.metrics.writes.WithLabelValues(f.Path).Inc()
	if f.failed.stage != atReload {
		f.failed = failure{}
	}
	if f.Reload != nil {
		f.reloadNow(ctx, s.content)
	}
}

// check runs the check. With a candidate it is on that.
func (f *file) check(ctx context.Context, candidate string) error {
	words := slices.Clone(f.Check)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], candidateWord, candidate)
	}
	err := f.p.runCommand(ctx, words, f.Timeout)
	if err != nil && ctx.Err() != nil {
		return errStopped
	}
	return err
}

// refuse takes in that the check failed and that the file is as it was.
func (f *file) refuse(ctx context.Context, s *seen, err error) {
	if ctx.Err() == nil {
		f.fail(atCheck, s.content, err, time.Now())
	}
}

// undo puts the old file back, which the check did not take.
func (f *file) undo(ctx context.Context, s *seen, loaded string, why error) {
	if err := f.p.putBack(f.Path); err != nil {
		f.fail(atWrite, s.content, err, time.Now())
		return
	}
	f.setLoaded(loaded)
	f.refuse(ctx, s, why)
}

// oldPath returns where the old file of a path is kept while a check looks at the new one.
func (p *Publisher) oldPath(path string) string {
	return filepath.Join(p.config.StateDir, "publish_files"+hiddenName(path)+".old")
}

// keepOld keeps the old file, and notes that it must be put back. Where it cannot be kept over a kill, as on a full disk,
// this daemon has it.
func (f *file) keepOld(s *seen) {
	note := restore{Target: s.target, Absent: !s.there.exists, Content: s.content.String(), old: &s.there}
	if dir := f.p.config.StateDir; s.there.exists && dir != "" {
		old := f.p.oldPath(f.Path)
		_, _ = os.MkdirAll(dir, 0o700), os.Remove(old)
		if os.Link(s.target, old) == nil || writeNew(old, s.there.text, &s.there) == nil {
			note.Old = old
		}
	}
	f.p.kept.update(f.Path, func(e *entry) { e.Restore = &note })
}

// forgetOld forgets the old file: what is in place is right, or is the old one.
func (p *Publisher) forgetOld(path string) {
	p.kept.update(path, func(e *entry) { e.Restore = nil })
	if p.config.StateDir != "" {
		_ = os.Remove(p.oldPath(path))
	}
}

// putBack puts an old file back if that is owed: a check does not take the new one, or was cut off.
func (p *Publisher) putBack(path string) error {
	note := p.kept.of(path).Restore
	if note == nil {
		return nil
	}
	there, err := readContent(note.Target)
	if err != nil {
		return err
	}
	if there.exists && there.digest().String() == note.Content {
		err = note.apply(path, p.config.StateDir)
	}
	if err != nil && !errors.Is(err, errNoOld) {
		return withAdvice(err, note.Target)
	}
	p.forgetOld(path)
	return err
}

// errNoOld is why an old file cannot be put back.
var errNoOld = errors.New("the old file could not be kept")

// apply puts the old file in place of the new one.
func (note *restore) apply(path, stateDir string) error {
	if note.Absent {
		return os.Remove(note.Target)
	}
	if note.Old != "" && os.Rename(note.Old, note.Target) == nil {
		return nil
	}
	old := note.old
	if old == nil {
		kept, err := readContent(note.Old)
		if err != nil || !kept.exists {
			return errors.Join(errNoOld, err)
		}
		old = &kept
	}
	candidate, err := newCandidate(candidatePlaces(stateDir, note.Target), hiddenName(path), old.text, old)
	if err != nil {
		return err
	}
	return putInPlace(candidate, note.Target, old.text, old)
}

// cleanUp removes what a daemon that was killed has left.
func (f *file) cleanUp() {
	target, err := Resolve(f.Path)
	if err != nil {
		return
	}
	for _, dir := range candidatePlaces(f.p.config.StateDir, target) {
		_ = os.Remove(filepath.Join(dir, hiddenName(f.Path)))
	}
	if f.p.config.StateDir != "" && f.p.kept.of(f.Path).Restore == nil {
		_ = os.Remove(f.p.oldPath(f.Path))
	}
}
