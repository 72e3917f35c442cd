package runtime

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rtmin is the first real-time signal that libc leaves to programs, and what
// Docker means by RTMIN.
const rtmin = 34

// Stops says whether a signal is one that operators stop this container with:
// KILL, TERM, INT, QUIT or the container's own stop signal. HUP, USR1 and the
// like tell a process something else.
func (c *Container) Stops(signal int) bool {
	switch unix.Signal(signal) {
	case unix.SIGKILL, unix.SIGTERM, unix.SIGINT, unix.SIGQUIT:
		return true
	}
	return signal != 0 && signal == c.StopSignalNumber()
}

// StopSignalNumber is the signal that a stop begins with.
func (c *Container) StopSignalNumber() int {
	if n := signalNumber(c.StopSignal); n != 0 {
		return n
	}
	return int(unix.SIGTERM)
}

// signalNumber reads a signal as Docker writes it: "SIGUSR1", "usr1", "10",
// "SIGRTMIN+3". It is 0 for anything else.
func signalNumber(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if offset, ok := strings.CutPrefix(name, "SIGRTMIN"); ok {
		n, err := strconv.Atoi(strings.TrimPrefix(offset, "+"))
		if offset != "" && err != nil {
			return 0
		}
		return rtmin + n
	}
	return int(unix.SignalNum(name))
}
