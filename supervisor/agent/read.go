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
	// firstByte bounds the wait for a client that says nothing at all.
	firstByte = time.Second
	// silence ends a name: HAProxy's command line cannot put a line break into
	// agent-send.
	silence = 50 * time.Millisecond
	// slowest bounds a client that sends byte by byte.
	slowest = 2 * time.Second
)

var errLongName = errors.New("the name is too long")

// readName reads a name: up to a line break, a comma, the end of what the client
// sends or silence after its first byte. It is empty for a client that sent none.
func readName(conn net.Conn) (string, error) {
	var buf [maxName + 1]byte
	n := 0
	end := time.Now().Add(slowest)
	wait := firstByte
	for {
		deadline := time.Now().Add(wait)
		if deadline.After(end) {
			deadline = end
		}
		if err := conn.SetReadDeadline(deadline); err != nil {
			return "", err
		}
		k, err := conn.Read(buf[n:])
		n += k
		if name, ok := parseName(buf[:n]); ok {
			return name, nil
		}
		switch {
		case n > maxName:
			return "", errLongName
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
			return strings.TrimSpace(string(buf[:n])), nil
		case err != nil:
			return "", err
		}
		wait = silence
	}
}

// parseName takes the name out of what was read so far; ok says that its end was
// among it.
func parseName(b []byte) (name string, ok bool) {
	i := bytes.IndexAny(b, "\r\n,")
	if i < 0 {
		return "", false
	}
	return strings.TrimSpace(string(b[:i])), true
}

// finish closes the connection so that the client can read the answer: unread data
// at the time of the close would make the kernel reset it.
func finish(conn net.Conn, lull time.Duration, surplus int64) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lull)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, surplus))
}
