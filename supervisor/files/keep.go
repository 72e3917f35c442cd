package files

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"healthd/supervisor/statefile"
)

const (
	keptVersion = 1
	maxKept     = 64 << 20 // bytes; only catches what is no file of healthd's

	maxKnown    = 1000                // services of a file
	forgetAfter = 30 * 24 * time.Hour // without a container
	seenEvery   = time.Hour           // how exactly that is known

	saveAgain = time.Minute
)

// entry is what is kept of a file.
type entry struct {
	// Loaded is the digest of what the file's reader has read for certain; empty: nobody knows. A reload is owed unless
	// it is the digest of the file.
	Loaded string `json:"loaded,omitempty"`
	// Restore is set while a check looks at what is in place.
	Restore *restore `json:"restore,omitempty"`
	// Services has when those that the file has had were seen last.
	Services map[string]time.Time `json:"services,omitempty"`
}

// restore says how to put an old file back.
type restore struct {
	Target  string `json:"target"`
	Absent  bool   `json:"absent,omitempty"` // there was none
	Old     string `json:"old,omitempty"`    // where it is; empty: only this daemon has it
	Content string `json:"content"`          // the digest of what is in place unless it was put back

	old *content // nil: another daemon's
}

// kept is the content of the state file.
type kept struct {
	Version int               `json:"version"`
	Files   map[string]*entry `json:"files"` // by path
}

// keeper has what outlives the daemon. Each change is written before anything follows from it.
type keeper struct {
	dir string // empty: nothing outlives it
	// tell hears of the first failure in a row, and of its end with nil.
	tell func(error)

	mu    sync.Mutex
	files map[string]*entry
	bad   bool      // the last save failed
	saved time.Time // when that was
}

func (k *keeper) file() statefile.File {
	return statefile.File{Path: filepath.Join(k.dir, "publish_files.json"), Version: keptVersion, Most: maxKept}
}

// of returns a copy of what is kept of a file.
func (k *keeper) of(path string) entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.files[path]
	if e == nil {
		return entry{}
	}
	c := *e
	c.Services = maps.Clone(e.Services)
	return c
}

// update changes what is kept of a file. A change that cannot be written counts for this daemon.
func (k *keeper) update(path string, change func(*entry)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.files[path]
	if e == nil {
		e = &entry{}
		k.files[path] = e
	}
	change(e)
	k.save()
}

// keepOnly forgets files that are not configured, but not that an old one must be put back.
func (k *keeper) keepOnly(paths []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.files)
	maps.DeleteFunc(k.files, func(path string, e *entry) bool { return !slices.Contains(paths, path) && e.Restore == nil })
	if len(k.files) != before {
		k.save()
	}
}

// owing returns the paths whose old file must be put back.
func (k *keeper) owing() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for path, e := range k.files {
		if e.Restore != nil {
			all = append(all, path)
		}
	}
	return all
}

// again saves what could not be saved a while ago. It returns when to call it again; zero: when something changes.
func (k *keeper) again(now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bad && !now.Before(k.saved.Add(saveAgain)) {
		k.save()
	}
	if !k.bad {
		return time.Time{}
	}
	return k.saved.Add(saveAgain)
}

func (k *keeper) save() {
	if k.dir == "" {
		return
	}
	err := k.file().Write(kept{keptVersion, k.files})
	if k.saved = time.Now(); (err != nil) != k.bad {
		k.bad = err != nil
		k.tell(err)
	}
}

// load reads what an earlier daemon has kept. A file that cannot be read is set aside; the error says so.
func (k *keeper) load() error {
	k.files = map[string]*entry{}
	if k.dir == "" {
		return nil
	}
	var state kept
	if _, err := k.file().Read(&state); err != nil {
		return k.file().SetAside(err)
	}
	k.files = filesOf(state)
	return nil
}

// filesOf leaves out what somebody has written into the file that is no file's.
func filesOf(state kept) map[string]*entry {
	files := map[string]*entry{}
	for path, e := range state.Files {
		if e == nil {
			continue
		}
		maps.DeleteFunc(e.Services, func(name string, _ time.Time) bool { return !isServiceName(name) })
		files[path] = e
	}
	return files
}

// remember returns the services that a file has had, with those that have containers now, and whether that is to be
// kept. It forgets those without a container for long, and if there are too many, those for longest.
func remember(known map[string]time.Time, live []string, now time.Time) (_ map[string]time.Time, changed bool) {
	next, lives := maps.Clone(known), map[string]bool{}
	if next == nil {
		next = map[string]time.Time{}
	}
	for _, name := range live {
		lives[name] = true
		if last, ok := next[name]; !ok || now.Sub(last) >= seenEvery || now.Before(last) {
			next[name] = now.UTC().Truncate(time.Second)
		}
	}
	maps.DeleteFunc(next, func(_ string, last time.Time) bool { return now.Sub(last) >= forgetAfter })
	if len(next) > maxKnown {
		seen := func(name string) time.Time {
			if lives[name] {
				return now
			}
			return next[name]
		}
		byAge := slices.SortedFunc(maps.Keys(next), func(a, b string) int { return cmp.Or(seen(b).Compare(seen(a)), cmp.Compare(a, b)) })
		for _, name := range byAge[maxKnown:] {
			delete(next, name)
		}
	}
	return next, !maps.EqualFunc(next, known, time.Time.Equal)
}
