package agent

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// waiting is a listener at which clients wait.
type waiting struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (w *waiting) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *waiting) Close() error {
	close(w.closed)
	return nil
}

func (w *waiting) Addr() net.Addr { return &net.TCPAddr{} }

// enter is a client that begins to wait.
func (w *waiting) enter() net.Conn {
	client, server := net.Pipe()
	w.conns <- server
	return client
}

// As many as Linux lets wait at a listener are before an honest client, and none of them
// goes before it must.
func TestCrowdDelaysNobody(t *testing.T) {
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
				w := &waiting{make(chan net.Conn, crowd+1), make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				begin := time.Now()
				go func() { done <- Serve(ctx, w, board()) }()
				for range crowd {
					go behave(w.enter())
				}
				honest := w.enter()
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

// Who says nothing is down. In a crowd it may yet be one that is slow, and no answer
// leaves HAProxy's server as it is.
func TestSilentInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{make(chan net.Conn, maxConnections), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, w, board()) }()
		begin := time.Now()
		var clients []net.Conn
		for range maxConnections {
			clients = append(clients, w.enter())
		}
		last, err := io.ReadAll(clients[maxConnections-1])
		if took := time.Since(begin); len(last) != 0 || err != nil || took != silence {
			t.Errorf("the last got %q, %v after %v", last, err, took)
		}
		first, err := io.ReadAll(clients[0])
		if took := time.Since(begin); string(first) != down+reasonNoName+"\n" || err != nil || took != time.Second+anotherLook {
			t.Errorf("the first got %q, %v after %v", first, err, took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
