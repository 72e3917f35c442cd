package haproxy

import (
	"net/netip"
	"slices"
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

// While an engine is missing, only servers of containers that are known to be gone are deleted.
func TestServersOfGoneContainers(t *testing.T) {
	t.Parallel()
	var all []*server
	for i, name := range []string{"gone", "missing", "unasked"} {
		all = append(all, &server{
			id: firstID + i, forcedID: true, name: name, address: netip.MustParseAddr("10.0.0.2"), port: 80, agentState: checkConfigured | checkEnabled,
			agentAddress: agentAddress{"127.0.0.1", 18647}, agentUp: true, weight: 100, initialWeight: 100,
		})
	}
	for _, complete := range []bool{false, true} {
		p := planFor("web", all, nil, 0)
		p.complete, p.agentSend = complete, map[string]string{"gone": "web/gone", "missing": "web/missing"}
		p.gone = func(name string) bool { return name == "web/gone" }
		p.compute(nil)
		var deleted []string
		for _, s := range all {
			if slices.ContainsFunc(p.commands, func(c command) bool { return c.text == "del server web/"+s.name }) {
				deleted = append(deleted, s.name)
			}
		}
		want := []string{"gone"}
		if complete {
			want = []string{"gone", "missing", "unasked"}
		}
		if !slices.Equal(deleted, want) {
			t.Errorf("complete: %v: deletes %v, want %v", complete, deleted, want)
		}
	}
}
