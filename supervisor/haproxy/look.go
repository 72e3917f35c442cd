package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// look asks HAProxy what it shows of these backends, or of all when it is not the
// process that was told before. What changes between its two tables is asked again; a
// backend that is never the same in both is a trouble, and none of the others'.
func (l *link) look(ctx context.Context, due []string) (map[string][]*server, error) {
	for tries := 3; ; tries-- {
		shown, unclear, err := l.lookOnce(ctx, due)
		if err != nil || len(unclear) == 0 {
			return shown, err
		}
		if tries > 1 {
			continue
		}
		for _, name := range unclear {
			delete(shown, name)
			l.unclear(name)
		}
		return shown, nil
	}
}

// unclear takes in that nothing is known of a backend's servers.
func (l *link) unclear(name string) {
	b, now := l.books[name], time.Now()
	b.planned, b.lookAt, b.alone = l.members[name], now.Add(lookEvery), ""
	clear(b.idle)
	l.trouble(b, name, "show stat lacks servers of backend "+name+": is it disabled?", "", now)
}

func (l *link) lookOnce(ctx context.Context, due []string) (shown map[string][]*server, unclear []string, err error) {
	answers, err := l.ask(ctx, append([]string{"show info"}, states(due)...))
	if err != nil {
		return nil, nil, err
	}
	p, age, err := readInfo(answers[0])
	if err != nil {
		return nil, nil, err
	}
	answers = answers[1:]
	if p != l.process || l.untold {
		l.forget()
		if due, err = l.discover(ctx); err != nil {
			return nil, nil, err
		}
		if answers, err = l.ask(ctx, states(due)); err != nil {
			return nil, nil, err
		}
		l.succeeded(p)
	}
	l.age = age
	if shown, err = l.readStates(due, answers); err == nil {
		unclear, err = l.addStats(ctx, shown)
	}
	return shown, unclear, err
}

// succeeded takes in which process is told from now on.
func (l *link) succeeded(p process) {
	if l.process != (process{}) && p != l.process && !l.lost {
		l.record(EventBack, "HAProxy at %s is a new process, it is told everything again", l.socket.text)
	}
	l.process, l.untold = p, false
}

func states(backends []string) []string {
	var all []string
	for _, name := range backends {
		all = append(all, "show servers state "+name)
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
	p := l.plan("", nil)
	for name, servers := range backends {
		if l.books[name] == nil && slices.ContainsFunc(servers, p.left) {
			l.books[name] = newBook()
		}
	}
	return l.due(time.Now()), nil
}

// readStates understands the answers about backends. One that is not there is a trouble,
// and none of the others'.
func (l *link) readStates(due, answers []string) (map[string][]*server, error) {
	shown := make(map[string][]*server, len(due))
	for i, name := range due {
		b := l.books[name]
		if b.missing = answers[i] == "Can't find backend."; b.missing {
			l.absent(name, b)
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

// addStats adds to servers what the other table shows, and returns the backends of
// which that lacks some. It goes by the number of the backend, as a frontend may have the
// same name and would be found first.
func (l *link) addStats(ctx context.Context, shown map[string][]*server) (unclear []string, err error) {
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
	answers, err := l.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		err := readStat(answers[i], shown[name])
		switch {
		case errors.Is(err, errMissing):
			unclear = append(unclear, name)
		case err != nil:
			return nil, err
		}
	}
	return unclear, nil
}

// absent takes in that HAProxy has no such backend.
func (l *link) absent(name string, b *book) {
	now := time.Now()
	b.planned, b.lookAt, b.alone = l.members[name], now.Add(lookEvery), ""
	if len(b.planned) == 0 {
		delete(l.books, name)
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
