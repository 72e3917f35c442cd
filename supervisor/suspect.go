package supervisor

import (
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

const (
	// suspectFor is how long no failed probe restarts a container after all of the host have begun to get no answer.
	suspectFor = time.Minute
	// The next such minute comes as long after the last one: containers that answer now and then must not keep one that
	// hangs from being restarted.
	suspectAgain = 10 * time.Minute
	// That one container, or all of one group, do not answer shows nothing about the host.
	suspectContainers, suspectGroups = 3, 2
)

// hostSuspect finds that no container of the host answers network probes: it is rather the host's network, or its
// load, than all of them at once. Only the guard uses it.
type hostSuspect struct {
	board  *Board
	groups map[string]int // containers with results of network probes
	asked  int            // the same of all groups
	silent int            // of them: those whose newest results are all without an answer
	since  time.Time      // all have been silent; zero: they are not
	until  time.Time      // restarts wait, also of those that have not answered when the first one does
	told   bool
}

// hearing is what network probes have found of a container.
type hearing struct {
	asked, silent bool
	group         string
}

// hearingOf looks at the newest results of a container's network probes, those that are asked now. One that could not
// be asked shows nothing.
func hearingOf(e *entry) hearing {
	h := hearing{silent: true, group: e.groupKey}
	if e.spec == nil || e.state.Engine.State != runtime.Running {
		return hearing{}
	}
	for t, p := range e.spec.Probes {
		last := &e.state.Health.Probes[t].Last
		isAsked := (core.ProbeType(t) == core.Startup) != e.state.Conditions.Started.Status
		if p == nil || !isAsked || last.Outcome == prober.Unknown {
			continue
		}
		if h := &p.Handler; h.HTTPGet == nil && h.TCPSocket == nil && h.GRPC == nil {
			continue
		}
		silent := last.Outcome == prober.Failure && (last.Cause == prober.Timeout || last.Cause == prober.Unreachable)
		if !silent && p.Handler.Inside(e.reached.ProbeAddress()) {
			continue // it has not passed the host's network
		}
		h.asked = true
		h.silent = h.silent && silent
	}
	if !h.asked {
		return hearing{}
	}
	return h
}

// update takes in a step of e.
func (s *hostSuspect) update(e *entry, now time.Time) { s.replace(&e.heard, hearingOf(e), now) }

// forget takes e out.
func (s *hostSuspect) forget(e *entry, now time.Time) { s.replace(&e.heard, hearing{}, now) }

func (s *hostSuspect) replace(old *hearing, h hearing, now time.Time) {
	if *old == h {
		return
	}
	s.count(*old, -1)
	s.count(h, 1)
	*old = h
	switch {
	case s.asked < suspectContainers || len(s.groups) < suspectGroups || s.silent < s.asked:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
		if now.Sub(s.until) >= suspectAgain {
			s.until, s.told = now.Add(suspectFor), false
		}
	}
	s.board.suspect.Store(!s.since.IsZero())
}

func (s *hostSuspect) count(h hearing, n int) {
	if !h.asked {
		return
	}
	s.asked += n
	if s.groups[h.group] += n; s.groups[h.group] == 0 {
		delete(s.groups, h.group)
	}
	if h.silent {
		s.silent += n
	}
}

// wait returns the wait of restarts for failed probes; zero: there is none, or no longer.
func (s *hostSuspect) wait(now time.Time) core.Wait {
	if now.Before(s.until) {
		return core.Wait{Reason: core.WaitHostSuspect, On: "a minute, because no container of the host answered: is it the host's network?", Until: s.until}
	}
	return core.Wait{}
}

// news returns what to record once when nothing answers any more; empty: nothing.
func (s *hostSuspect) news(waits bool) string {
	if s.since.IsZero() || s.told {
		return ""
	}
	s.told = true
	text := fmt.Sprintf("No network probe of %d containers has an answer: is it the host's network, or its load?", s.asked)
	if waits {
		text += fmt.Sprintf(" For %v no failed probe restarts a container", suspectFor)
	}
	return text
}

// HostSuspect says that all network probes of the host are without an answer.
func (b *Board) HostSuspect() bool { return b.suspect.Load() }
