package prober

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// closeWait bounds the wait for the server to close after a complete reply.
const closeWait = 10 * time.Millisecond

// exchange sends one request and reads its reply on a new connection. Its buffers are
// used again by the next probe.
type exchange struct {
	br          *bufio.Reader
	body        []byte
	interrupted chan struct{}
}

func newExchange() *exchange {
	return &exchange{
		br:          bufio.NewReaderSize(nil, headBuffer),
		interrupted: make(chan struct{}, 1),
	}
}

// do sends the request and reads the reply, which is valid until the next call.
// With an error, the reply has as much as arrived.
func (x *exchange) do(ctx context.Context, deadline time.Time, sa syscall.Sockaddr, request []byte) (reply, error) {
	fd, err := startConnect(sa)
	if err != nil {
		return reply{receivedAt: time.Now()}, err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	if err := f.SetDeadline(deadline); err != nil {
		return reply{receivedAt: time.Now()}, err
	}
	release := interruptOnDone(ctx, f, x.interrupted)
	defer release()
	// A socket on its way to be connected is not yet writable, and the write
	// has the error where the way ends: there is no need to wait twice.
	if _, err := f.Write(request); err != nil {
		return reply{receivedAt: time.Now()}, err
	}
	x.br.Reset(f)
	defer x.br.Reset(nil)
	rep, err := readReply(x.br, x.body[:0])
	x.body = rep.body
	rep.receivedAt = time.Now()
	// The side that closes first keeps the connection in TIME_WAIT. When that would be
	// healthd, a reset avoids it, so that probes do not use up the host's ports.
	if err != nil || !serverCloses(ctx, f, x.br, deadline, rep) {
		resetOnClose(fd)
	}
	return rep, err
}

// serverCloses waits for the server to close after rep.
func serverCloses(ctx context.Context, f *os.File, br *bufio.Reader, deadline time.Time, rep reply) bool {
	if rep.eof || rep.truncated {
		return rep.eof
	}
	soon := time.Now().Add(closeWait)
	if deadline.Before(soon) {
		soon = deadline
	}
	// If ctx has ended just now, this deadline replaced the one that it set.
	if f.SetReadDeadline(soon) != nil || ctx.Err() != nil {
		return false
	}
	// A trailer may come first. A server that sends more is reset.
	_, err := br.Discard(headBuffer)
	return errors.Is(err, io.EOF)
}
