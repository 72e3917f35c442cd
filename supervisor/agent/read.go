package agent

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// maxName is more than any SERVICE/NAME, in bytes.
	maxName = 512
	// nameTimeout after the newest byte, a name ends: HAProxy's command line cannot put a
	// line break into agent-send.
	nameTimeout = 50 * time.Millisecond
	// lateRead is the time for another read after a timeout. When healthd itself did not
	// get the CPU, the deadline may be over before it has read what is there.
	lateRead = 10 * time.Millisecond
)

var (
	errLongName = errors.New("the name is too long")
	errNoData   = errors.New("nothing was sent")
)

// timeouts are those of one connection.
type timeouts struct {
	firstByte   time.Duration // until the first byte
	total       time.Duration // until the end of the name; then again, until the answer is written
	afterAnswer time.Duration // for reading what the client sends after the name
	overloaded  bool
}

// timeoutsFor returns long timeouts for a client on a slow host; a client that sends nothing
// gets a down. While the listener is overloaded, they are so short that a full backlog of
// silent clients is served within half a second, and HAProxy's checks behind it in time. A
// client that has sent nothing then gets no answer: it may be a slow HAProxy, which keeps
// the server's state without an answer.
func timeoutsFor(overloaded bool) timeouts {
	if overloaded {
		return timeouts{firstByte: nameTimeout - lateRead, total: nameTimeout, overloaded: true}
	}
	return timeouts{firstByte: time.Second, total: 2 * time.Second, afterAnswer: 250 * time.Millisecond}
}

// readName reads a name: up to a line break, a comma, the end of the stream or nameTimeout
// after the newest byte. It is empty when the client sent none. complete says that no
// more data is there or expected.
func readName(conn net.Conn, p timeouts) (name string, complete bool, err error) {
	var buf [maxName + 1]byte
	n, attempts := 0, 0
	end := time.Now().Add(p.total)
	wait := p.firstByte
	for {
		deadline := time.Now().Add(wait)
		if deadline.After(end) {
			deadline = end
		}
		if err := conn.SetReadDeadline(deadline); err != nil {
			return "", false, err
		}
		k, err := conn.Read(buf[n:])
		n += k
		if name, rest, ok := parseName(buf[:n]); ok {
			return name, len(rest) == 0 && n < len(buf), nil
		}
		switch {
		case n > maxName:
			return "", false, errLongName
		case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
			if attempts++; attempts > 1 {
				return "", false, errNoData
			}
			wait, end = lateRead, time.Now().Add(lateRead)
			continue
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
			return strings.TrimSpace(string(buf[:n])), err == io.EOF, nil
		case err != nil:
			return "", false, err
		}
		wait = nameTimeout
	}
}

// parseName returns the name in b and the rest after it; ok says that b has its end.
func parseName(b []byte) (name string, rest []byte, ok bool) {
	i := bytes.IndexAny(b, "\r\n,")
	if i < 0 {
		return "", nil, false
	}
	return strings.TrimSpace(string(b[:i])), bytes.TrimLeft(b[i:], "\r\n,"), true
}

// closeAfterClient reads what the client still sends: closing a connection with unread data
// would reset it, and the client might lose the answer.
func closeAfterClient(conn net.Conn, lull time.Duration) {
	const surplus = 64 << 10
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || lull == 0 || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lull)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, surplus))
}
