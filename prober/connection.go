package prober

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// connection is a socket that is connected or on its way.
type connection struct {
	f     *os.File
	fd    int // of f
	since time.Time
}

func connect(to endpoint) (connection, error) {
	fd, err := startConnect(to)
	if err != nil {
		return connection{}, err
	}
	return connection{os.NewFile(uintptr(fd), ""), fd, time.Now()}, nil
}

// Close resets the connection, so that it does not stay in TIME_WAIT.
func (c connection) Close() error {
	resetOnClose(c.fd)
	return c.f.Close()
}

func (c connection) opened() time.Time { return c.since }

// quiet says that the server has neither closed the connection nor sent anything.
func (c connection) quiet() bool {
	poll := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return n == 0 && err == nil
}

// takeIdle takes the connection that k has, if it can be used; k may be nil. What a server sends unasked is
// no reply: some say why they close.
func takeIdle(k *kept[connection]) connection {
	if k == nil {
		return connection{}
	}
	c := k.take()
	if c.f != nil && !c.quiet() {
		_ = c.Close()
		return connection{}
	}
	return c
}
