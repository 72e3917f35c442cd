// Package ports gives tests ports for programs that they start.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Linux gives connections, and listeners that ask for any port, those from 32768 on.
const (
	first = 10_000
	end   = 32_000
)

// claims are never closed: they say to other tests of this machine that a port is taken. They end with the process.
var claims struct {
	sync.Mutex
	all []net.Listener
}

// Claim returns a port at which nothing listens on 127.0.0.1. No connection gets it for its own end, and no other test
// while this process runs.
func Claim() (int, error) {
	for range 1000 {
		port := first + rand.IntN(end-first)
		claim, err := net.Listen("unix", fmt.Sprintf("@healthd-test-port-%d", port))
		if err != nil {
			continue // another test has it
		}
		claims.Lock()
		claims.all = append(claims.all, claim)
		claims.Unlock()
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("found no free port")
}

// Free is Claim for a test.
func Free(tb testing.TB) int {
	tb.Helper()
	port, err := Claim()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Address is 127.0.0.1 with a port that is Free.
func Address(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Free(tb)))
}
