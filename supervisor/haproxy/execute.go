package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// query sends commands and returns an answer for each. It fails when permission is denied
// for one.
func (l *instance) query(ctx context.Context, commands []string) ([]string, error) {
	if len(commands) == 0 {
		return nil, nil
	}
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

var (
	errDenied = errors.New("it refuses commands (Permission denied): its stats socket needs level admin")
	// errNewProcess says that commands went to another process than the one that was looked at.
	errNewProcess = errors.New("it is a new process")
)

// execute sends commands for so long, at least some, and all of those of a server or none. It returns how many it sent; failed
// has for each subject the first one that failed.
func (l *instance) execute(ctx context.Context, commands []command, most time.Duration) (done int, failed map[string]string, err error) {
	const atOnce = 256
	began := time.Now()
	failed = map[string]string{}
	for done < len(commands) && (done == 0 || time.Since(began) < most) {
		end := min(done+atOnce, len(commands))
		for end < len(commands) && commands[end].subject == commands[end-1].subject {
			end++
		}
		if err := l.executeSome(ctx, commands[done:end], failed); err != nil {
			return done, failed, err
		}
		done = end
	}
	l.pushed = l.pushed || done > 0
	return done, failed, nil
}

func (l *instance) executeSome(ctx context.Context, commands []command, failed map[string]string) error {
	lines := make([]string, 1, len(commands)+1)
	lines[0] = "show info"
	for _, c := range commands {
		lines = append(lines, c.text)
	}
	answers, err := l.query(ctx, lines)
	if err != nil {
		return err
	}
	if p, _, err := readInfo(answers[0]); err != nil {
		return err
	} else if p != l.process {
		return errNewProcess
	}
	before := len(failed)
	for i, c := range commands {
		if _, known := failed[c.subject]; !c.accepts(answers[i+1]) && !known {
			failed[c.subject] = fmt.Sprintf("%q is answered with %q", c.text, clip(answers[i+1]))
		}
	}
	l.h.metrics.countCommands(l.socket, len(commands), len(failed)-before)
	return nil
}

// cutAfter leaves only the first commands of a look that were executed, of so many, and returns how many these are.
func (k *look) cutAfter(done int) int {
	n := min(done, len(k.commands))
	k.cut = n < len(k.commands)
	k.commands = k.commands[:n]
	return n
}
