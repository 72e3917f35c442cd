package agent

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

const maxConnections = 1024

// clientListener is a listener whose backlog the test fills.
type clientListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (w *clientListener) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *clientListener) Close() error {
	close(w.closed)
	return nil
}

func (w *clientListener) Addr() net.Addr { return &net.TCPAddr{} }

// connect adds a client to the backlog.
func (w *clientListener) connect() net.Conn {
	client, server := net.Pipe()
	w.conns <- server
	return client
}

// A full backlog of silent clients is in front of a client that sends a name.
func TestSilentClientsDoNotDelayOthers(t *testing.T) {
	const crowd = 4096
	for name, behave := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"byte by byte": func(conn net.Conn) {
			for {
				if _, err := conn.Write([]byte("a")); err != nil {
					return
				}
				time.Sleep(30 * time.Millisecond)
			}
		},
		"takes no answer": func(conn net.Conn) { _, _ = io.WriteString(conn, "ready\nand more") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &clientListener{make(chan net.Conn, crowd+1), make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				begin := time.Now()
				go func() { done <- Serve(ctx, w, board(), unsticky, maxConnections) }()
				for range crowd {
					go behave(w.connect())
				}
				honest := w.connect()
				if _, err := io.WriteString(honest, "ready\n"); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(honest)
				took := time.Since(begin)
				t.Logf("the honest one had its answer after %v", took)
				if string(answer) != up || err != nil || took > time.Second {
					t.Errorf("got %q, %v after %v", answer, err, took)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A silent client gets a down. While overloaded it gets no answer, because it may be slow;
// HAProxy then keeps the server's state.
func TestSilentClientWhileOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &clientListener{make(chan net.Conn, maxConnections), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, w, board(), unsticky, maxConnections) }()
		begin := time.Now()
		var clients []net.Conn
		for range maxConnections {
			clients = append(clients, w.connect())
		}
		last, err := io.ReadAll(clients[maxConnections-1])
		if took := time.Since(begin); len(last) != 0 || err != nil || took != nameTimeout {
			t.Errorf("the last got %q, %v after %v", last, err, took)
		}
		first, err := io.ReadAll(clients[0])
		if took := time.Since(begin); string(first) != down+reasonNoName+"\n" || err != nil || took != time.Second+lateRead {
			t.Errorf("the first got %q, %v after %v", first, err, took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
