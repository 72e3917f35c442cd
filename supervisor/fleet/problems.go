package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"healthd/supervisor/core"
)

// about is what can be wrong.
type about string

// What can be wrong.
const (
	aboutStore       about = "store" // it is not reached
	aboutLease       about = "lease"
	aboutName        about = "name" // another daemon has the host's
	aboutPublish     about = "publish"
	aboutCertificate about = "certificate"
	aboutState       about = "state"
	aboutKnown       about = "known"
)

var mended = map[about]string{
	aboutLease: "The lease of this host is renewed again", aboutName: "The name of this host is its own again",
	aboutPublish: "Members of this host are published again", aboutCertificate: "The certificate for the fleet's store is good again",
	aboutState: "What a restart of healthd needs of the fleet is kept again", aboutKnown: "What is known of other hosts is kept again",
}

// problem is something that is wrong now.
type problem struct {
	class   class
	message string
	since   time.Time
}

type problems struct {
	mu  sync.Mutex
	now map[about]problem
}

// fail says that something is wrong. Its event is recorded once for each class.
func (f *Fleet) fail(a about, c class, message string) {
	f.problems.mu.Lock()
	old, was := f.problems.now[a]
	p := problem{c, message, time.Now()}
	if was {
		p.since = old.since
	}
	f.problems.now[a] = p
	f.problems.mu.Unlock()
	if was && old.class == c || was && a == aboutStore {
		return
	}
	reason := eventError
	if a == aboutStore {
		reason = eventLost
	}
	f.record(reason, "Fleet: %s", message)
}

// mend says that it is well.
func (f *Fleet) mend(a about) {
	f.problems.mu.Lock()
	old, was := f.problems.now[a]
	delete(f.problems.now, a)
	f.problems.mu.Unlock()
	switch {
	case !was:
	case a == aboutStore:
		f.record(eventBack, "The fleet's store is back after %v", time.Since(old.since).Round(time.Second))
	default:
		f.record(eventBack, "%s", mended[a])
	}
}

// any says whether one of these is wrong now.
func (p *problems) any(of ...about) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(of, func(a about) bool { _, is := p.now[a]; return is })
}

// text returns all that is wrong; empty: nothing.
func (p *problems) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, a := range slices.Sorted(maps.Keys(p.now)) {
		all = append(all, p.now[a].message)
	}
	return strings.Join(all, "; ")
}

func (f *Fleet) record(reason, format string, args ...any) {
	const most = 1024
	f.config.Journal.Record(core.Event{Time: time.Now(), Reason: reason, Message: cut(fmt.Sprintf(format, args...), most)})
}
