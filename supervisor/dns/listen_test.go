package dns

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"healthd/e2e/ports"
)

// A listener that is gone ends the server.
func TestLostListener(t *testing.T) {
	s, _ := server(shop()...)
	ls, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ls.udp.Close()
	if err := s.Serve(t.Context(), ls, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Another program may have the address for one of both only.
func TestListen(t *testing.T) {
	udp, err := net.ListenPacket("udp", ports.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, address := range []string{udp.LocalAddr().String(), tcp.Addr().String()} {
		if _, err := Listen(address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
	}
	if free, err := net.Listen("tcp", udp.LocalAddr().String()); err != nil {
		t.Errorf("TCP was kept: %v", err)
	} else {
		free.Close()
	}
	if _, err := Listen("192.0.2.1:0"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("got %v", err)
	}
	if _, err := Listen("nonsense"); err == nil {
		t.Error("nonsense is an address")
	}
}
