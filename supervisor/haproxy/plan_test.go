package haproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"healthd/supervisor"
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

// Containers of two Compose projects in one backend are mostly those of one and another's that a spec matches by mistake.
func TestSeveralProjectsInOneBackend(t *testing.T) {
	t.Parallel()
	const warning = "backend web has containers of several Compose projects (dev, shop): have the spec match com.docker.compose.project, too; " +
		"or, if that is meant, set publish.service"
	for _, tt := range []struct {
		name     string
		services []string
		owned    bool
		want     bool
	}{
		{"two projects", []string{"shop/web", "shop/web", "dev/web"}, false, true},
		{"one project", []string{"shop/web", "shop/api"}, false, false},
		{"without Compose", []string{"web", "shop/web"}, false, false},
		{"a file says so", []string{"shop/web", "dev/web"}, true, false},
	} {
		var all []member
		for i, service := range tt.services {
			all = append(all, newMember(&supervisor.Member{Service: service, Owned: tt.owned}, fmt.Sprint("c", i), ""))
		}
		p := planFor("web", nil, all, 0)
		p.compute(all)
		got := slices.ContainsFunc(p.problems, func(of problem) bool { return of.text == warning })
		if got != tt.want {
			t.Errorf("%s: the problems are %v", tt.name, p.problems)
		}
	}
}
