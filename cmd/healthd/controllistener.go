package main

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"healthd/configs"
	"healthd/supervisor/api"
)

// controlListener is the listener of the control socket, whose path may be removed while the daemon runs.
type controlListener struct {
	config configs.Listen
	group  int

	mu     sync.Mutex
	now    net.Listener
	closed bool
}

// listenControl makes the control socket, for a group or ownGroup.
func listenControl(c configs.Listen, group int) (*controlListener, error) {
	l := &controlListener{config: c, group: group}
	var err error
	if l.now, err = l.listen(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *controlListener) listen() (net.Listener, error) {
	ln, err := api.ListenControl(l.config.Control)
	if err != nil {
		return nil, err
	}
	if l.group != ownGroup {
		if err := giveToGroup(l.config.Control, l.group); err != nil {
			ln.Close()
			return nil, fmt.Errorf("cannot give the control socket to listen.control_group: %w: write [Service] Group=%s with systemctl edit healthd", err, l.config.ControlGroup)
		}
	}
	return ln, nil
}

// Accept implements net.Listener. A socket made anew takes the place of the one before.
func (l *controlListener) Accept() (net.Conn, error) {
	for {
		ln := l.current()
		conn, err := ln.Accept()
		if err == nil || !errors.Is(err, net.ErrClosed) || l.current() == ln {
			return conn, err
		}
	}
}

func (l *controlListener) current() net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// renew makes the socket anew where its path was removed, and says whether it did. Connections stay open.
func (l *controlListener) renew() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !isGone(l.config.Control) {
		return false, nil
	}
	ln, err := l.listen()
	if err != nil {
		return false, err
	}
	old := l.now
	l.now = ln
	if u, ok := old.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the path is the new one's
	}
	return true, old.Close()
}

// Close implements net.Listener.
func (l *controlListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.now.Close()
}

// Addr implements net.Listener.
func (l *controlListener) Addr() net.Addr { return l.current().Addr() }
