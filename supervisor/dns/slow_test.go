package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"
)

// backlog is a listener whose clients the test makes.
type backlog struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (b *backlog) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

func (b *backlog) Close() error   { close(b.closed); return nil }
func (b *backlog) Addr() net.Addr { return &net.TCPAddr{} }

func (b *backlog) connect() net.Conn {
	client, server := net.Pipe()
	b.conns <- server
	return client
}

func TestSlowClients(t *testing.T) {
	query := packed(t, question("db.healthd. A", 0))
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	for name, behave := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"byte by byte": func(conn net.Conn) {
			for _, c := range framed {
				if _, err := conn.Write([]byte{c}); err != nil {
					return
				}
				time.Sleep(150 * time.Millisecond)
			}
		},
		"takes no answer": func(conn net.Conn) { _, _ = conn.Write(framed) },
		"asks for ever": func(conn net.Conn) {
			for {
				if _, err := conn.Write(framed); err != nil {
					return
				}
				if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, maxTCP))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most, crowd = 64, 512
				s, _ := server(shop()...)
				b := &backlog{make(chan net.Conn, crowd+1), make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				begin := time.Now()
				go func() { done <- s.serveTCP(ctx, b, most) }()
				var clients sync.WaitGroup
				for range crowd {
					conn := b.connect()
					clients.Go(func() { behave(conn) })
				}
				honest := b.connect()
				go func() { _, _ = honest.Write(framed) }()
				c := miekg.Conn{Conn: honest}
				answer, err := c.ReadMsg()
				took := time.Since(begin)
				t.Logf("the honest one had its answer after %v", took)
				if err != nil || line(answer) != "10.0.1.1" || took > 7*time.Second {
					t.Errorf("got %v, %v after %v", answer, err, took)
				}
				cancel()
				b.Close() // as Serve does
				if err := <-done; err != nil {
					t.Error(err)
				}
				for len(b.conns) > 0 {
					(<-b.conns).Close()
				}
				clients.Wait()
			})
		})
	}
}

// The end does not wait for clients that are silent: see serve.
func TestEnd(t *testing.T) {
	s, _ := server(shop()...)
	address := start(t, s, 8)
	for range 4 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ask(t, address, "tcp", question("db.healthd. A", 0))
}
