package files

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
)

// knowledge is which containers the readers of each file may send requests to.
type knowledge struct {
	changed chan struct{} // has room for one

	mu    sync.Mutex
	files []*File
	ready map[string]map[string]bool // by path: IDs of containers; none: it is not known
}

func newKnowledge() *knowledge {
	return &knowledge{changed: make(chan struct{}, 1), ready: map[string]map[string]bool{}}
}

// configure replaces the files. Somebody may have waited for one that is gone.
func (k *knowledge) configure(files []File) {
	defer k.tell()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files = nil
	stale := maps.Clone(k.ready)
	for i := range files {
		k.files = append(k.files, &files[i])
		delete(stale, files[i].Path)
	}
	for path := range stale {
		delete(k.ready, path)
	}
}

// unknown says that a file may be about to change.
func (k *knowledge) unknown(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ready, path)
}

// is says what the reader of a file knows.
func (k *knowledge) is(path string, ready map[string]bool) {
	k.mu.Lock()
	k.ready[path] = ready
	k.mu.Unlock()
	k.tell()
}

func (k *knowledge) tell() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// any says that somebody waits for one of the files.
func (k *knowledge) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.files, func(f *File) bool { return f.Drain > 0 })
}

// out says that there are files for a service whose readers send requests, and that none sends any to the container.
// Without such a file it says what is to be said then.
func (k *knowledge) out(service, container string, uncovered bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	covered := false
	for _, f := range k.files {
		if f.Drain == 0 || !f.Covers(service) {
			continue
		}
		covered = true
		if ready, known := k.ready[f.Path]; !known || ready[container] {
			return false
		}
	}
	return covered || uncovered
}

const (
	tellAgain  = time.Second // while a run still awaits it
	tellWithin = 5 * time.Second
)

// tellWithdrawn tells the supervisor of runs that no file has any more, until ctx ends. It looks at the board before it
// looks at what readers know: a container that is out by then is put into no file again. In a fleet, hosts whose readers
// never know a run must say so, too: each run ends when all have.
func (p *Publisher) tellWithdrawn(ctx context.Context, s Supervisor) {
	board := s.Board()
	fleet := board.ExpectsRemote()
	told := map[runtime.Run]time.Time{}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		changed := board.Changed()
		next := time.Time{}
		began := time.Now()
		awaiting := awaitingRuns(board, fleet || p.known.any())
		lookTook := time.Since(began)
		for run := range told {
			if _, still := awaiting[run]; !still {
				delete(told, run)
			}
		}
		for run, service := range awaiting {
			now := time.Now()
			if at := told[run].Add(tellAgain); now.Before(at) {
				next = earliest(next, at)
			} else if p.known.out(service, run.ID, fleet) {
				told[run] = now
				next = earliest(next, now.Add(tellAgain))
				waiting, cancel := context.WithTimeout(ctx, tellWithin)
				_ = s.Withdrawn(waiting, run) // it is told again
				cancel()
			}
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(time.Millisecond, time.Until(next))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-changed:
			rest(ctx, lookTook)
		case <-p.known.changed:
		case <-timer.C:
		}
	}
}

// awaitingRuns returns the runs whose drain waits for a withdrawal, with their services: those of other hosts, and if
// wanted those of this one.
func awaitingRuns(board *supervisor.Board, local bool) map[runtime.Run]string {
	all := map[runtime.Run]string{}
	if local {
		for v := range board.All() {
			if v.Service != "" && v.State.AwaitsWithdrawal() {
				all[v.State.Run.ID] = v.Service
			}
		}
	}
	for m := range board.RemoteMembers() {
		if m.AwaitsWithdrawal {
			all[m.Run] = m.Service
		}
	}
	return all
}
