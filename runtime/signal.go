package runtime

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rtmin is the first real-time signal that libc leaves to programs. Docker calls it
// RTMIN. rtmax is the last one.
const rtmin, rtmax = 34, 64

// aliases are second names in the kernel's headers, which Docker accepts.
var aliases = map[string]unix.Signal{"SIGIOT": unix.SIGABRT, "SIGCLD": unix.SIGCHLD, "SIGPOLL": unix.SIGIO}

// UnknownSignal is the number of a signal that was sent, and of which nobody can tell which one it was.
const UnknownSignal = -1

// Stops says whether a signal is one that stops this container: KILL, TERM, INT, QUIT
// or the container's own stop signal, or one that is not known. HUP, USR1 and others have other uses.
func (c *Container) Stops(signal int) bool {
	switch unix.Signal(signal) {
	case unix.SIGKILL, unix.SIGTERM, unix.SIGINT, unix.SIGQUIT:
		return true
	}
	return signal == UnknownSignal || signal != 0 && signal == c.StopSignalNumber()
}

// BeginsStop says whether a stop of the container may begin with that signal.
func (c *Container) BeginsStop(signal int) bool {
	return signal == UnknownSignal || signal == c.StopSignalNumber()
}

// StopSignalNumber returns the signal that a stop of the container begins with.
func (c *Container) StopSignalNumber() int {
	if n := signalNumber(c.StopSignal); n != 0 {
		return n
	}
	return int(unix.SIGTERM)
}

// signalNumber parses what Docker accepts as a signal: "SIGUSR1", "usr1", "10",
// "SIGRTMIN+3", "RTMAX-1". It returns 0 for anything else, as for a number that is no signal's:
// sending that fails, and -1 is UnknownSignal.
func signalNumber(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > rtmax {
			return 0
		}
		return n
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if offset, ok := strings.CutPrefix(name, "SIGRTMIN"); ok {
		return realTime(rtmin, offset)
	}
	if offset, ok := strings.CutPrefix(name, "SIGRTMAX"); ok {
		return realTime(rtmax, offset)
	}
	if n, ok := aliases[name]; ok {
		return int(n)
	}
	return int(unix.SignalNum(name))
}

// realTime returns the real-time signal base+offset; 0 when there is none.
func realTime(base int, offset string) int {
	n := 0
	if offset != "" {
		var err error
		if n, err = strconv.Atoi(offset); err != nil {
			return 0
		}
	}
	if n += base; n < rtmin || n > rtmax {
		return 0
	}
	return n
}
