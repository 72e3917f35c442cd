package fleet

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"healthd/runtime"
)

// said is what a host has said of a run that is about to be stopped.
type said struct {
	withdrawn, drained, notServed bool
}

func (s said) or(o said) said {
	return said{s.withdrawn || o.withdrawn, s.drained || o.drained, s.notServed || o.notServed}
}

// words is what this host says of runs: of its own, and of other hosts', for which they are written into the store.
type words struct {
	mu       sync.Mutex
	said     map[runtime.Run]said
	at       map[runtime.Run]time.Time
	draining map[runtime.Run]remote // those of other hosts
	awaiting map[runtime.Run]bool   // those of this host
	own      string
}

// forgetSaid is how long what was said of a run counts that nobody knows to be awaiting anything.
const forgetSaid = 10 * time.Second

func newWords(own string) *words {
	return &words{said: map[runtime.Run]said{}, at: map[runtime.Run]time.Time{}, draining: map[runtime.Run]remote{}, own: own}
}

// say takes in a word. It returns false when that is nothing new.
func (w *words) say(run runtime.Run, s said, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.said[run]
	w.said[run], w.at[run] = before.or(s), now
	return w.said[run] != before
}

func (w *words) of(run runtime.Run) said {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said[run]
}

// show takes in what has changed of other hosts.
func (w *words) show(put []remote, gone []string) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run := range w.draining {
		for _, id := range gone {
			if run.ID == id {
				delete(w.draining, run)
				changed = true
			}
		}
	}
	for _, r := range put {
		run := runtime.Run{ID: r.boardID(), Started: r.Run}
		maps.DeleteFunc(w.draining, func(o runtime.Run, _ remote) bool { return o.ID == run.ID && o != run })
		if r.State == stateDraining && r.Awaits != "" {
			w.draining[run] = r
		} else if _, was := w.draining[run]; was { // it goes on being served: what was said is true no more
			delete(w.draining, run)
			delete(w.said, run)
			delete(w.at, run)
		}
		changed = true
	}
	return changed && len(w.said) > 0
}

// wanted adds the words that the store should have: of other hosts' runs that still await something.
func (w *words) wanted(keys map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run, s := range w.said {
		r, ok := w.draining[run]
		if !ok {
			continue
		}
		k := key{kind: wordKey, host: r.host, container: r.Container, balancer: w.own}
		if text, err := encode(wordValue{Run: r.Run, ID: r.ID, Withdrawn: s.withdrawn, Drained: s.drained, NotServed: s.notServed}); err == nil {
			keys[k.String()] = text
		}
	}
}

// forget forgets what was said of runs that await nothing any more. Who says it may know of them first.
func (w *words) forget(local []localRun, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	await := map[runtime.Run]bool{}
	for _, l := range local {
		await[l.run] = true
	}
	for run := range w.awaiting {
		if !await[run] { // it goes on, as when somebody holds it: what was said is true no more
			delete(w.said, run)
			delete(w.at, run)
		}
	}
	w.awaiting = await
	for run := range w.said {
		if _, ok := w.draining[run]; !ok && !await[run] && now.Sub(w.at[run]) > forgetSaid {
			delete(w.said, run)
			delete(w.at, run)
		}
	}
}

// isRemote says whether a run is another host's.
func isRemote(run runtime.Run) bool { return strings.Contains(run.ID, "/") }

// situation is what counts for whether a run of this host may go on being stopped.
type situation struct {
	connected       bool // what is known of other hosts is true now
	told            bool // etcd has confirmed that it has what the run awaits
	balancer, files bool // of this host
	own             said
	hosts           []Host // the others
	others          map[string]said
}

// combine says whether nobody in the fleet is told to send new requests to a run, and whether all its requests are answered. While
// etcd is not reached neither is known: the bounds of the drain end the wait then.
func combine(s *situation) (withdrawn, drained bool) {
	if !s.connected {
		return false, false
	}
	withdrawn = s.told && (!s.files || s.own.withdrawn)
	all, some := true, false
	if s.balancer {
		all, some = s.own.drained || s.own.notServed, s.own.drained
	}
	for _, h := range s.hosts {
		if h.State != HostLive {
			continue
		}
		word := s.others[h.Name]
		if h.Files && !word.withdrawn {
			withdrawn = false
		}
		if h.Balancer {
			all = all && (word.drained || word.notServed)
			some = some || word.drained
		}
	}
	return withdrawn, all && some
}

const (
	tellAgain  = time.Second // while a run still awaits it
	tellWithin = 5 * time.Second
)

// closer tells the supervisor what the fleet knows of runs that it is about to stop.
type closer struct {
	f    *Fleet
	wake chan struct{} // has room for one

	mu       sync.Mutex
	awaiting []localRun
	others   map[key]wordValue
}

func newCloser(f *Fleet) *closer { return &closer{f: f, wake: make(chan struct{}, 1)} }

func (c *closer) setAwaiting(all []localRun) {
	c.mu.Lock()
	c.awaiting = all
	c.mu.Unlock()
	c.f.words.forget(all, time.Now())
	signal(c.wake)
}

// setOthers takes in what other hosts say of runs of this one. The map does not change any more.
func (c *closer) setOthers(all map[key]wordValue) {
	c.mu.Lock()
	c.others = all
	c.mu.Unlock()
	signal(c.wake)
}

func (c *closer) now() ([]localRun, map[key]wordValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.awaiting, c.others
}

// run tells until ctx ends.
func (c *closer) run(ctx context.Context, s Supervisor) {
	for {
		awaiting, others := c.now()
		status := c.f.seen.Load()
		again := time.Hour
		for i := range awaiting {
			l := &awaiting[i]
			withdrawn, drained := combine(c.situation(l, others, status))
			if withdrawn && l.withdrawal {
				tellRun(ctx, l.run, s.Withdrawn)
				again = tellAgain
			}
			if drained {
				tellRun(ctx, l.run, s.Drained)
				again = tellAgain
			}
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func tellRun(ctx context.Context, run runtime.Run, tell func(context.Context, runtime.Run) error) {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	_ = tell(ctx, run) // it is told again
}

func (c *closer) situation(l *localRun, others map[key]wordValue, status *Status) *situation {
	f := c.f
	s := &situation{
		connected: status.Connected, told: f.own.has(l.key, l.body), balancer: f.config.Balancer, files: f.files.Load(), own: f.words.of(l.run),
		hosts: status.Hosts, others: map[string]said{},
	}
	for k, v := range others {
		if k.container == l.container && v.Run == l.run.Started && v.ID == l.run.ID {
			s.others[k.balancer] = said{v.Withdrawn, v.Drained, v.NotServed}
		}
	}
	return s
}
