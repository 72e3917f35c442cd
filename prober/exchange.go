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

// plainRequest is what an exchange sends, and where.
type plainRequest struct {
	to    endpoint
	wire  []byte
	limit int64             // of the body that is read
	keep  *kept[connection] // nil: each request gets a new connection
}

// exchange sends one request and reads its reply. Its buffers are used again by the next
// probe.
type exchange struct {
	head        io.LimitedReader // of the connection
	br          *bufio.Reader    // of head
	rest        io.LimitedReader // of br
	body        bytes.Buffer
	limit       int64 // of body
	ended       bool  // the body was read to its end
	interrupted chan struct{}
}

func newExchange() *exchange {
	x := &exchange{limit: MaxOutput, interrupted: make(chan struct{}, 1)}
	x.br = bufio.NewReaderSize(&x.head, readBuffer)
	return x
}

// do sends the request, reads the reply and calls use, for the time of which the reply is
// valid. With an error, the reply has as much as arrived. If use returns true, the connection may
// be used again.
func (x *exchange) do(ctx context.Context, deadline time.Time, r *plainRequest, use func(reply, error) bool) {
	x.limit = r.limit
	if c := takeIdle(r.keep); c.f != nil && x.doOn(ctx, deadline, r, c, true, use) {
		return
	}
	c, err := connect(r.to)
	if err != nil {
		use(reply{status: noStatus}, err)
		return
	}
	x.doOn(ctx, deadline, r, c, false, use)
}

// doOn is do on a connection, which it keeps or closes. It returns false, without a call of use, if the
// connection was used before and the server left it: it may do so at any time.
func (x *exchange) doOn(ctx context.Context, deadline time.Time, r *plainRequest, c connection, used bool, use func(reply, error) bool) bool {
	rep, err := reply{status: noStatus}, c.f.SetDeadline(deadline)
	release := interruptOnDone(ctx, c.f, x.interrupted)
	if err == nil {
		// A socket on its way to be connected is not yet writable, and the write
		// has the error where the way ends: there is no need to wait twice.
		_, err = c.f.Write(r.wire)
	}
	if err == nil {
		rep, err = x.readReply(c.f)
		if err != nil && rep.status == noStatus && !time.Now().Before(deadline) {
			err = os.ErrDeadlineExceeded // net/http calls half a status line malformed, whatever cut it
		}
	}
	if used && rep.missed(err) && time.Now().Before(deadline) {
		release()
		_ = c.Close()
		return false
	}
	again := use(rep, err) && r.keep != nil && !rep.last && x.ended && x.br.Buffered() == 0
	// The side that closes first keeps the connection in TIME_WAIT. When that would be
	// healthd, a reset avoids it, so that probes do not use up the host's ports.
	serverFirst := !again && err == nil && (r.keep == nil || rep.last) && serverCloses(ctx, c.f, x.br, deadline)
	release()
	x.head.R = nil
	if x.body.Cap() > keepBody {
		x.body = bytes.Buffer{}
	}
	switch {
	case again:
		r.keep.put(c)
	case serverFirst:
		_ = c.f.Close()
	default:
		_ = c.Close()
	}
	return true
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
