package ports

import (
	"net"
	"strconv"
	"testing"
)

// Ports are different, and not those that connections get.
func TestFree(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port := Free(t)
		if seen[port] || port < first || port >= end {
			t.Fatalf("got %d after %d others", port, len(seen))
		}
		seen[port] = true
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if other, err := net.Listen("unix", "@healthd-test-port-"+strconv.Itoa(port)); err == nil {
			other.Close()
			t.Fatal("another test may have it, too")
		}
	}
}
