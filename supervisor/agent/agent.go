// Package agent answers HAProxy's agent checks from the supervisor's board: one
// name in, one line out. It uses no words but up, down and a weight: "ready" would
// undo what HAProxy's operator has set, and "drain" would stick.
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
)

// Reasons for a down that the supervisor does not know.
const (
	reasonNoName    = "NoName"
	reasonLongName  = "NameTooLong"
	reasonUnknown   = "UnknownContainer"
	reasonOtherName = "OtherService"
	reasonUnnamed   = "NotReady"
	maxReason       = 64
)

const (
	acceptRetryDelay = 50 * time.Millisecond
	// maxConnections are served at once. When more than half are under way there is a
	// crowd: see patience.
	maxConnections = 1024
)

// Serve answers on ln until ctx ends and the last answer was given. It closes ln.
func Serve(ctx context.Context, ln net.Listener, board *supervisor.Board) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer func() {
		if stop() {
			ln.Close()
		}
	}()
	slots := make(chan struct{}, maxConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err != nil {
			<-slots
			if err := pause(ctx, err); err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		p := patienceFor(len(slots) > maxConnections/2)
		conns.Go(func() {
			defer func() { <-slots }()
			serve(conn, board, p)
		})
	}
}

// pause waits before the next Accept when the last one failed for want of
// something that comes back, such as descriptors. It returns errors that stay, and
// none when ctx has ended.
func pause(ctx context.Context, err error) error {
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
func serve(conn net.Conn, board *supervisor.Board, p patience) {
	defer conn.Close()
	name, all, err := readName(conn, p)
	answer := down + reasonNoName + "\n"
	switch {
	case errors.Is(err, errLongName):
		answer = down + reasonLongName + "\n"
	case errors.Is(err, errSilent) && !p.crowded:
	case err != nil:
		return
	case name != "":
		answer = reply(board, name)
	}
	if answer == "" {
		return
	}
	if conn.SetWriteDeadline(time.Now().Add(p.whole)) != nil {
		return
	}
	if _, err := conn.Write([]byte(answer)); err == nil && !all {
		finish(conn, p.lull)
	}
}

// reply is what the board says of NAME or SERVICE/NAME. It is nothing of a container
// that is not there while others are still to come: HAProxy then keeps the server as it
// is, and a start of healthd takes no server down.
func reply(board *supervisor.Board, name string) string {
	service := ""
	i := strings.LastIndexByte(name, '/')
	if i >= 0 {
		service, name = name[:i], name[i+1:]
	}
	v, ok := board.Find(name)
	switch {
	case !ok && !board.Synced():
		return ""
	case !ok:
		return down + reasonUnknown + "\n"
	}
	if i >= 0 && v.Service != service {
		return down + reasonOtherName + "\n"
	}
	ready, reason, _ := v.Readiness()
	switch {
	case ready:
		return up
	case v.DrainingReady():
		return draining
	}
	return down + clean(reason) + "\n"
}

// clean makes a reason that fits on HAProxy's line and into its tables.
func clean(reason string) string {
	printable := func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}
	reason = strings.Map(printable, strings.TrimSpace(reason))
	if reason == "" {
		return reasonUnnamed
	}
	return reason[:min(len(reason), maxReason)]
}
