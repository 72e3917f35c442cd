package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	miekg "github.com/miekg/dns"
)

const (
	// atOnceUDP is how many queries by UDP are answered at once. While an index is made, they all may wait for
	// that, and the kernel keeps some hundred more.
	atOnceUDP = 32
	// MaxTCP is how many connections healthd ever has for DNS: few clients use TCP.
	MaxTCP = 256

	writeTimeout = 2 * time.Second
)

// serveUDP answers one query after the other.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	query := make([]byte, maxQuery+1)
	w := newWriter(maxUDP)
	for {
		n, from, err := miekg.ReadFromSessionUDP(conn, query)
		if err != nil {
			if err := waitAfter(ctx, err); err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		if n > maxQuery {
			n = headerLength // which is answered as what it is: wrong
		}
		if answer := s.respond(w, query[:n], false); answer != nil && conn.SetWriteDeadline(time.Now().Add(writeTimeout)) == nil {
			_, _ = miekg.WriteToSessionUDP(conn, answer, from) // the client asks again
		}
	}
}

// timeouts are those of a connection.
type timeouts struct {
	idle  time.Duration // until the first byte of the next query
	query time.Duration // from then until its end
	write time.Duration // for the answer
}

// timeoutsFor returns short ones when more than half of all connections are in use: then each is for one query only,
// and silent clients are through soon.
func timeoutsFor(overloaded bool) timeouts {
	if overloaded {
		return timeouts{idle: 200 * time.Millisecond, query: 200 * time.Millisecond, write: 200 * time.Millisecond}
	}
	return timeouts{idle: 10 * time.Second, query: 2 * time.Second, write: writeTimeout}
}

// serveTCP serves at most most connections at once. Others wait until one of those ends.
func (s *Server) serveTCP(ctx context.Context, ln net.Listener, most int) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	slots := make(chan struct{}, most)
	overloaded := func() bool { return len(slots) > most/2 }
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err != nil {
			<-slots
			if err := waitAfter(ctx, err); err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			s.serveConn(ctx, conn, overloaded)
		})
	}
}

// serveConn answers the queries of one connection, one after the other, and closes it.
func (s *Server) serveConn(ctx context.Context, conn net.Conn, overloaded func() bool) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	query := make([]byte, maxQuery)
	for first := true; first || !overloaded(); first = false {
		n, err := readQuery(ctx, conn, query, timeoutsFor(overloaded()))
		if err != nil || !s.answerTCP(conn, query[:n], timeoutsFor(overloaded()).write) {
			return
		}
	}
}

// readQuery reads a length and as many bytes.
func readQuery(ctx context.Context, conn net.Conn, query []byte, t timeouts) (n int, err error) {
	var length [2]byte
	if err := setReadDeadline(ctx, conn, t.idle); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, length[:1]); err != nil {
		return 0, err
	}
	if err := setReadDeadline(ctx, conn, t.query); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, length[1:]); err != nil {
		return 0, err
	}
	n = int(binary.BigEndian.Uint16(length[:]))
	if n > len(query) {
		return 0, io.ErrShortBuffer
	}
	_, err = io.ReadFull(conn, query[:n])
	return n, err
}

// setReadDeadline fails when ctx has ended: its end set a deadline of its own.
func setReadDeadline(ctx context.Context, conn net.Conn, d time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	return ctx.Err()
}

// answerTCP returns false for a client that gets no answer, or takes none.
func (s *Server) answerTCP(conn net.Conn, query []byte, timeout time.Duration) bool {
	w := s.writers.Get().(*writer)
	defer s.writers.Put(w)
	answer := s.respond(w, query, true)
	if answer == nil || conn.SetWriteDeadline(time.Now().Add(timeout)) != nil {
		return false
	}
	length := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
	buffers := net.Buffers{length, answer} // clients may read both at once only
	_, err := buffers.WriteTo(conn)
	return err == nil
}
