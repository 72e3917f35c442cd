package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"healthd/supervisor"
)

// look is what a sync does for one backend: it asks for all servers (whole), or for a few that are watched.
type look struct {
	name    string
	b       *backendState
	roll    *roll
	members []member
	whole   bool
	due     time.Time
	watched []watched // unless whole

	servers  []*server // as HAProxy shows them
	cookie   bool      // clients stick to servers by a cookie
	plan     *plan     // nil: nothing is different from what the last plan saw
	commands []command // of the plan: those that are due, then those that were executed
	cut      bool      // there was no time for all of them
}

// size is about how many servers are looked at.
func (k *look) size() int {
	if !k.whole {
		return len(k.watched)
	}
	return max(len(k.b.servers), len(k.members), 1)
}

// questions are the commands that ask for what is looked at first.
func (k *look) questions() (all []string) {
	if k.whole {
		return []string{"show servers state " + k.name}
	}
	for _, w := range k.watched {
		all = append(all, fmt.Sprintf("show stat %d 4 %d", w.server.backendID, w.server.id))
	}
	return all
}

// look asks HAProxy what it has, in the backends that are due, or in all when it is a new process.
func (l *instance) look(ctx context.Context, board *supervisor.Board, now time.Time) ([]*look, error) {
	var looks []*look
	if !l.standsBy.Load() {
		looks = l.choose(now)
	}
	answers, err := l.query(ctx, append([]string{"show info"}, questions(looks)...))
	if err != nil {
		return nil, err
	}
	p, age, err := readInfo(answers[0])
	if err != nil {
		return nil, err
	}
	answers = answers[1:]
	if other, err := l.claim(ctx, p); err != nil || other != nil {
		l.standBy(p, other)
		return nil, err
	}
	if p != l.process || l.needsFullSync {
		l.requestFullSync()
		if err := l.discover(ctx); err != nil {
			return nil, err
		}
		if n := networkOf(ctx, l.socket); n != l.roster.network {
			l.roster.network = n
			l.roster.takeAll(board)
		}
		looks = l.choose(now)
		if answers, err = l.query(ctx, questions(looks)); err != nil {
			return nil, err
		}
		l.noteProcess(p)
	}
	l.processAge = age
	return l.read(ctx, looks, answers)
}

func questions(looks []*look) (all []string) {
	for _, k := range looks {
		all = append(all, k.questions()...)
	}
	return all
}

// noteProcess notes the process, and records an event when it is a new one.
func (l *instance) noteProcess(p process) {
	if l.process != (process{}) && p != l.process && !l.lost {
		l.record(EventBack, "HAProxy at %s is a new process, all servers are set again", l.socket.text)
	}
	l.process, l.needsFullSync = p, false
}

// discover finds backends in which an earlier daemon may have left servers, and whether clients stick to servers.
func (l *instance) discover(ctx context.Context) error {
	answers, err := l.query(ctx, []string{"show servers state", "show table"})
	if err != nil {
		return err
	}
	backends, err := readServers(answers[0])
	if err != nil {
		return err
	}
	if l.sticks, err = l.keepsServers(ctx, tables(answers[1])); err != nil {
		return err
	}
	p := l.newPlan("", newBackendState(), nil)
	for name, servers := range backends {
		if l.backends[name] == nil && slices.ContainsFunc(servers, p.managed) {
			l.backends[name] = newBackendState()
		}
	}
	return nil
}

// read takes in the answers to the questions of looks, and returns the looks that can be planned. When the answers to
// "show servers state" and "show stat" differ, it asks again. A backend whose answers differ three times is reported as
// a problem, and left out.
func (l *instance) read(ctx context.Context, looks []*look, answers []string) (read []*look, err error) {
	var unclear []*look
	for _, k := range looks {
		n := len(k.questions())
		mine := answers[:n]
		answers = answers[n:]
		switch {
		case !k.whole:
			if k.readWatched(mine) {
				read = append(read, k)
			} else {
				l.behind = true
			}
		default:
			there, err := l.readServers(k, mine[0])
			if err != nil {
				return nil, err
			}
			if there {
				unclear = append(unclear, k)
			}
		}
	}
	for tries := 3; len(unclear) > 0; tries-- {
		clear, still, err := l.addStats(ctx, unclear)
		if err != nil {
			return nil, err
		}
		read, unclear = append(read, clear...), still
		if tries == 1 {
			for _, k := range unclear {
				l.backendIncomplete(k)
			}
			break
		}
		if unclear, err = l.readAgain(ctx, unclear); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// readServers parses the answer about a backend's servers. A backend that does not exist is reported as a problem.
func (l *instance) readServers(k *look, answer string) (there bool, err error) {
	if k.b.missing = answer == "Can't find backend."; k.b.missing {
		l.backendMissing(k)
		return false, nil
	}
	backends, err := readServers(answer)
	k.servers = backends[k.name]
	return err == nil, err
}

func (l *instance) readAgain(ctx context.Context, looks []*look) (there []*look, err error) {
	answers, err := l.query(ctx, questions(looks))
	if err != nil {
		return nil, err
	}
	for i, k := range looks {
		ok, err := l.readServers(k, answers[i])
		if err != nil {
			return nil, err
		}
		if ok {
			there = append(there, k)
		}
	}
	return there, nil
}

// addStats adds the answers to "show stat", of backends and their servers. Unclear are those of whose servers some are missing there. It
// asks by the backend's number: HAProxy would find a frontend of the same name first.
func (l *instance) addStats(ctx context.Context, looks []*look) (clear, unclear []*look, err error) {
	var commands []string
	for _, k := range looks {
		if len(k.servers) > 0 {
			commands = append(commands, fmt.Sprintf("show stat %d 6 -1", k.servers[0].backendID))
		}
	}
	answers, err := l.query(ctx, commands)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range looks {
		var err error
		if len(k.servers) > 0 {
			k.cookie, err = readStat(answers[0], k.servers)
			answers = answers[1:]
		}
		switch {
		case errors.Is(err, errIncompleteStat):
			unclear = append(unclear, k)
		case err != nil:
			return nil, nil, err
		default:
			clear = append(clear, k)
		}
	}
	return clear, unclear, nil
}

// backendIncomplete reports that a backend's servers could not be read.
func (l *instance) backendIncomplete(k *look) {
	now := time.Now()
	k.postpone(now)
	l.reportProblem(k.b, k.name, "show stat lacks servers of backend "+k.name+": is it disabled?", "", now)
}

// backendMissing reports that HAProxy has no such backend.
func (l *instance) backendMissing(k *look) {
	now := time.Now()
	k.postpone(now)
	if len(k.members) == 0 {
		delete(l.backends, k.name)
		return
	}
	l.reportProblem(k.b, k.name, "there is no backend "+k.name, "", now)
}

// postpone gives up a look until the next one that is due.
func (k *look) postpone(now time.Time) {
	k.roll.clear()
	k.b.pollAt, k.b.lastUp, k.b.settled = now.Add(pollInterval), "", false
	k.b.servers, k.b.server = []*server{}, nil
	clear(k.b.idlePolls)
	clear(k.b.watched)
}
