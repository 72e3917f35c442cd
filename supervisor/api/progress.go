package api

import (
	"net"
	"sync"
	"time"
)

// A reader takes progressBytes of an answer within progressTime, or its connection ends: the places of those who write long answers
// are few.
const (
	progressBytes = 16 << 10
	progressTime  = time.Second
)

// progressListener has connections end whose client does not read.
type progressListener struct{ net.Listener }

// Accept implements net.Listener.
func (l progressListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &progressConn{Conn: conn}, nil
}

type progressConn struct {
	net.Conn
	mu  sync.Mutex
	end time.Time // of the whole answer; zero: it has none
}

// SetDeadline implements net.Conn.
func (c *progressConn) SetDeadline(t time.Time) error {
	c.setEnd(t)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *progressConn) SetWriteDeadline(t time.Time) error {
	c.setEnd(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *progressConn) setEnd(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = t
}

// Write implements net.Conn.
func (c *progressConn) Write(p []byte) (written int, err error) {
	for err == nil && len(p) > 0 {
		c.mu.Lock()
		by := time.Now().Add(progressTime)
		if !c.end.IsZero() && c.end.Before(by) {
			by = c.end
		}
		err = c.Conn.SetWriteDeadline(by)
		c.mu.Unlock()
		if err == nil {
			var n int
			n, err = c.Conn.Write(p[:min(len(p), progressBytes)])
			written, p = written+n, p[n:]
		}
	}
	return written, err
}
