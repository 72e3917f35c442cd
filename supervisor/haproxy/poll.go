package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// poll reads the servers of these backends from HAProxy, or of all backends when it is a
// new process. When the answers to "show servers state" and "show stat" differ, it reads
// again. A backend whose answers differ three times is reported as a problem, and left
// out.
func (l *instance) poll(ctx context.Context, due []string) (map[string][]*server, error) {
	for tries := 3; ; tries-- {
		shown, unclear, err := l.pollOnce(ctx, due)
		if err != nil || len(unclear) == 0 {
			return shown, err
		}
		if tries > 1 {
			continue
		}
		for _, name := range unclear {
			delete(shown, name)
			l.backendIncomplete(name)
		}
		return shown, nil
	}
}

// backendIncomplete reports that a backend's servers could not be read.
func (l *instance) backendIncomplete(name string) {
	b, now := l.backends[name], time.Now()
	b.plannedMembers, b.pollAt, b.lastUp = l.members[name], now.Add(pollInterval), ""
	clear(b.idlePolls)
	l.reportProblem(b, name, "show stat lacks servers of backend "+name+": is it disabled?", "", now)
}

func (l *instance) pollOnce(ctx context.Context, due []string) (shown map[string][]*server, unclear []string, err error) {
	answers, err := l.query(ctx, append([]string{"show info"}, states(due)...))
	if err != nil {
		return nil, nil, err
	}
	p, age, err := readInfo(answers[0])
	if err != nil {
		return nil, nil, err
	}
	answers = answers[1:]
	if p != l.process || l.needsFullSync {
		l.requestFullSync()
		if due, err = l.discover(ctx); err != nil {
			return nil, nil, err
		}
		if answers, err = l.query(ctx, states(due)); err != nil {
			return nil, nil, err
		}
		l.noteProcess(p)
	}
	l.processAge = age
	if shown, err = l.readStates(due, answers); err == nil {
		unclear, err = l.addStats(ctx, shown)
	}
	return shown, unclear, err
}

// noteProcess notes the process, and records an event when it is a new one.
func (l *instance) noteProcess(p process) {
	if l.process != (process{}) && p != l.process && !l.lost {
		l.record(EventBack, "HAProxy at %s is a new process, all servers are set again", l.socket.text)
	}
	l.process, l.needsFullSync = p, false
}

func states(backends []string) []string {
	var all []string
	for _, name := range backends {
		all = append(all, "show servers state "+name)
	}
	return all
}

// discover finds backends in which an earlier daemon may have left servers.
func (l *instance) discover(ctx context.Context) ([]string, error) {
	answers, err := l.query(ctx, []string{"show servers state"})
	if err != nil {
		return nil, err
	}
	backends, err := readServers(answers[0])
	if err != nil {
		return nil, err
	}
	p := l.plan("", nil)
	for name, servers := range backends {
		if l.backends[name] == nil && slices.ContainsFunc(servers, p.managed) {
			l.backends[name] = newBackendState()
		}
	}
	return l.due(time.Now()), nil
}

// readStates parses the answers about backends. A backend that does not exist is reported
// as a problem, and left out.
func (l *instance) readStates(due, answers []string) (map[string][]*server, error) {
	shown := make(map[string][]*server, len(due))
	for i, name := range due {
		b := l.backends[name]
		if b.missing = answers[i] == "Can't find backend."; b.missing {
			l.backendMissing(name, b)
			continue
		}
		backends, err := readServers(answers[i])
		if err != nil {
			return nil, err
		}
		shown[name] = backends[name]
	}
	return shown, nil
}

// addStats adds the answers to "show stat" to the servers, and returns the backends of
// which some servers are missing there. It asks by the backend's number: HAProxy would
// find a frontend of the same name first.
func (l *instance) addStats(ctx context.Context, shown map[string][]*server) (unclear []string, err error) {
	var names, commands []string
	for name, servers := range shown {
		if len(servers) > 0 {
			names = append(names, name)
			commands = append(commands, fmt.Sprintf("show stat %d 4 -1", servers[0].backendID))
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	answers, err := l.query(ctx, commands)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		err := readStat(answers[i], shown[name])
		switch {
		case errors.Is(err, errIncompleteStat):
			unclear = append(unclear, name)
		case err != nil:
			return nil, err
		}
	}
	return unclear, nil
}

// backendMissing reports that HAProxy has no such backend.
func (l *instance) backendMissing(name string, b *backendState) {
	now := time.Now()
	b.plannedMembers, b.pollAt, b.lastUp = l.members[name], now.Add(pollInterval), ""
	if len(b.plannedMembers) == 0 {
		delete(l.backends, name)
		return
	}
	l.reportProblem(b, name, "there is no backend "+name, "", now)
}

// query sends commands and returns an answer for each. It fails when permission is denied
// for one.
func (l *instance) query(ctx context.Context, commands []string) ([]string, error) {
	answers, err := l.conversation.exchange(ctx, l.socket, commands)
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

// execute sends the commands, and returns for each subject the first one that failed.
func (l *instance) execute(ctx context.Context, commands []command) (map[string]string, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	lines := make([]string, len(commands))
	for i, c := range commands {
		lines[i] = c.text
	}
	answers, err := l.query(ctx, lines)
	if err != nil {
		return nil, err
	}
	failed := map[string]string{}
	for i, c := range commands {
		if _, before := failed[c.subject]; !c.accepts(answers[i]) && !before {
			failed[c.subject] = fmt.Sprintf("%q is answered with %q", c.text, clip(answers[i]))
		}
	}
	l.h.metrics.countCommands(l.socket, len(commands), len(failed))
	if !l.changedAt.IsZero() {
		l.h.metrics.observePush(time.Since(l.changedAt))
	}
	return failed, nil
}
