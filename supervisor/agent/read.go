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
	// maxName is above any container's and service's name together.
	maxName = 512
	// silence ends a name: HAProxy's command line cannot put a line break into
	// agent-send.
	silence = 50 * time.Millisecond
	// anotherLook is for what came while healthd itself was kept from running, so that
	// the first look found the time over and nothing else.
	anotherLook = 10 * time.Millisecond
)

var (
	errLongName = errors.New("the name is too long")
	errSilent   = errors.New("nothing was sent")
)

// patience is how long a client is waited for.
type patience struct {
	first   time.Duration // for its first byte
	whole   time.Duration // for all of the name, should it send byte by byte; to take the answer
	lull    time.Duration // for the end of what it sends beyond the name
	crowded bool
}

// patienceFor is long for a client that is slow because its host is: who has said
// nothing is down. In a crowd it is so short that as many as can wait at the listener,
// all of them silent, are served in half a second, and an honest one behind them in
// time. Who has said nothing then gets no answer: it may yet be an honest one, and for
// HAProxy no answer leaves the server as it is.
func patienceFor(crowded bool) patience {
	if crowded {
		return patience{first: silence - anotherLook, whole: silence, crowded: true}
	}
	return patience{first: time.Second, whole: 2 * time.Second, lull: 250 * time.Millisecond}
}

// readName reads a name: up to a line break, a comma, the end of what the client
// sends or silence after its first byte. It is empty for a client that sent none. All
// says that nothing is left to be read, and nothing more to be expected.
func readName(conn net.Conn, p patience) (name string, all bool, err error) {
	var buf [maxName + 1]byte
	n, looks := 0, 0
	end := time.Now().Add(p.whole)
	wait := p.first
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
			if looks++; looks > 1 {
				return "", false, errSilent
			}
			wait, end = anotherLook, time.Now().Add(anotherLook)
			continue
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
			return strings.TrimSpace(string(buf[:n])), err == io.EOF, nil
		case err != nil:
			return "", false, err
		}
		wait = silence
	}
}

// parseName takes the name out of what was read so far; ok says that its end was
// among it, and rest is what came after that.
func parseName(b []byte) (name string, rest []byte, ok bool) {
	i := bytes.IndexAny(b, "\r\n,")
	if i < 0 {
		return "", nil, false
	}
	return strings.TrimSpace(string(b[:i])), bytes.TrimLeft(b[i:], "\r\n,"), true
}

// finish closes the connection so that the client can read the answer: unread data
// at the time of the close would make the kernel reset it.
func finish(conn net.Conn, lull time.Duration) {
	const surplus = 64 << 10
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || lull == 0 || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lull)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, surplus))
}
