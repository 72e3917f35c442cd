package haproxy

import (
	"testing"
	"time"
)

// However many servers are added, their agent checks are about a thousand in a second.
func TestAgentInterval(t *testing.T) {
	t.Parallel()
	for servers, want := range map[int]time.Duration{0: time.Second, 1000: time.Second, 1001: 2 * time.Second, 10_000: 10 * time.Second} {
		if got := agentInterval(servers); got != want {
			t.Errorf("%d servers: agent checks each %v, want %v", servers, got, want)
		}
	}
}
