// Package agent answers HAProxy's agent checks from the supervisor's board.
//
//	HAProxy ── "SERVICE/NAME\n" ──▶ up 100%             the container is ready, on whatever host
//	                                down # REASON       it is not, or is unknown
//	                                up 0% # draining    no new requests
//	                                down # draining     that, where clients stick to servers and would go on at 0%
//
// It says nothing else: "ready" would undo an operator's drain or maint, and "drain" would
// stay set. What ready means is decided by package supervisor.
package agent

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"healthd/supervisor"
)

// The answers; down is followed by a reason and a line break.
const (
	up       = "up 100%\n"
	draining = "up 0% # draining\n"
	down     = "down # "

	drainingSticky = down + "draining\n"
)

// Reasons for a down, beside those of the supervisor.
const (
	reasonNoName   = "NoName"
	reasonLongName = "NameTooLong"
	reasonEmpty    = "NotReady"
	maxReason      = 64
)

const acceptRetryDelay = 50 * time.Millisecond

// Serve answers on ln until ctx ends and the last answer was sent, over at most most connections at
// once. With more than half of them in use, the listener is overloaded: see timeoutsFor. It closes
// ln. Its error is one of ln that does not go away. sticky says in which backends of HAProxy clients stick to servers.
func Serve(ctx context.Context, ln net.Listener, board *supervisor.Board, sticky func(backend string) bool, most int) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer func() {
		if stop() {
			ln.Close()
		}
	}()
	slots := make(chan struct{}, most)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err != nil {
			<-slots
			if err := waitBeforeAccept(ctx, err); err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		p := timeoutsFor(len(slots) > most/2)
		conns.Go(func() {
			defer func() { <-slots }()
			serve(conn, board, sticky, p)
		})
	}
}

// waitBeforeAccept waits after a failed Accept, for example without descriptors. It returns
// err when that is permanent, and nil when ctx has ended.
func waitBeforeAccept(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	timer := time.NewTimer(acceptRetryDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// serve answers one connection and closes it.
func serve(conn net.Conn, board *supervisor.Board, sticky func(string) bool, p timeouts) {
	defer conn.Close()
	name, complete, err := readName(conn, p)
	answer := down + reasonNoName + "\n"
	switch {
	case errors.Is(err, errLongName):
		answer = down + reasonLongName + "\n"
	case errors.Is(err, errNoData) && !p.overloaded:
	case err != nil:
		return
	case name != "":
		answer = reply(board, sticky, name)
	}
	if answer == "" {
		return
	}
	if conn.SetWriteDeadline(time.Now().Add(p.total)) != nil {
		return
	}
	if _, err := conn.Write([]byte(answer)); err == nil && !complete {
		closeAfterClient(conn, p.afterAnswer)
	}
}

// reply returns the answer for NAME or SERVICE/NAME. For an unknown container it is empty
// until all are known that may have that name: without an answer HAProxy keeps the server's
// state, so a start of healthd takes no server down.
func reply(board *supervisor.Board, sticky func(backend string) bool, name string) string {
	m, err := board.FindMember(name)
	if errors.Is(err, supervisor.ErrUnknownContainer) {
		if !board.Knows(name) {
			return ""
		}
		m, err = board.FindMember(name) // it may have come in between
	}
	if err != nil {
		return down + cleanReason(supervisor.ReasonNotFound(err)) + "\n"
	}
	switch {
	case m.Ready:
		return up
	case m.DrainingReady && m.Backend != "" && sticky(m.Backend):
		return drainingSticky
	case m.DrainingReady:
		return draining
	}
	return down + cleanReason(m.Reason) + "\n"
}

// cleanReason makes a reason printable and short enough for HAProxy.
func cleanReason(reason string) string {
	printable := func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}
	reason = strings.Map(printable, strings.TrimSpace(reason))
	if reason == "" {
		return reasonEmpty
	}
	return reason[:min(len(reason), maxReason)]
}
