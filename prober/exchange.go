package prober

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// keepBody is the largest buffer that the next probe uses again, in bytes: few read long bodies.
const keepBody = 4 * MaxOutput

// closeWait bounds the wait for the server to close after a complete reply.
const closeWait = 10 * time.Millisecond

// exchange sends one request and reads its reply on a new connection. Its buffers are
// used again by the next probe.
type exchange struct {
	head        io.LimitedReader // of the connection
	br          *bufio.Reader    // of head
	rest        io.LimitedReader // of br
	body        bytes.Buffer
	limit       int64 // of body
	interrupted chan struct{}
}

func newExchange() *exchange {
	x := &exchange{limit: MaxOutput, interrupted: make(chan struct{}, 1)}
	x.br = bufio.NewReaderSize(&x.head, readBuffer)
	return x
}

// do sends the request, reads the reply and calls use, for the time of which the reply is
// valid. With an error, the reply has as much as arrived.
func (x *exchange) do(ctx context.Context, deadline time.Time, to endpoint, request []byte, use func(reply, error)) {
	rep := reply{status: noStatus}
	fd, err := startConnect(to)
	if err != nil {
		use(rep, err)
		return
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	err = f.SetDeadline(deadline)
	release := interruptOnDone(ctx, f, x.interrupted)
	defer release()
	if err == nil {
		// A socket on its way to be connected is not yet writable, and the write
		// has the error where the way ends: there is no need to wait twice.
		_, err = f.Write(request)
	}
	if err == nil {
		rep, err = x.readReply(f)
	}
	use(rep, err)
	// The side that closes first keeps the connection in TIME_WAIT. When that would be
	// healthd, a reset avoids it, so that probes do not use up the host's ports.
	if err != nil || !serverCloses(ctx, f, x.br, deadline) {
		resetOnClose(fd)
	}
	x.head.R = nil
	if x.body.Cap() > keepBody {
		x.body = bytes.Buffer{}
	}
}

// serverCloses waits for the server to close after its reply.
func serverCloses(ctx context.Context, f *os.File, br *bufio.Reader, deadline time.Time) bool {
	soon := time.Now().Add(closeWait)
	if deadline.Before(soon) {
		soon = deadline
	}
	// If ctx has ended just now, this deadline replaced the one that it set.
	if f.SetReadDeadline(soon) != nil || ctx.Err() != nil {
		return false
	}
	// A little of the body may come first. A server that sends more is reset.
	_, err := br.Discard(readBuffer)
	return errors.Is(err, io.EOF)
}
