package main

import (
	"errors"
	"strings"
	"testing"

	"healthd/configs"
	"healthd/runtime"
)

func TestLive(t *testing.T) {
	f := &fake{}
	socket, _ := daemonWith(t, f)
	if got := inside("live", "--socket", socket); got.code != 0 || got.stdout != "healthd lives\n" || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	f.stuck = errors.New("stuck")
	if got := inside("live", "--socket", socket); got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, "healthd: ") {
		t.Errorf("a loop that is stuck: %+v", got)
	}
}

// What does not work in a container is said, with the flags that it wants, and nothing else.
func TestContainerLimits(t *testing.T) {
	const (
		forgets  = "state.dir /var/lib/healthd is in the container's own file system: what healthd remembers is lost when the container is made anew: mount a volume there (-v healthd:/var/lib/healthd)"
		networks = "it reaches only containers of its own networks (a, b): probes of others by HTTP, TCP and gRPC are Unknown; connect it to their networks, or run it with --network=host"
		unheard  = "nobody outside of it reaches listen.agent and listen.dns and listen.http on 127.0.0.1: set 0.0.0.0 and publish the port to have metrics and checks"
		commands = "without --pid=host it cannot end commands of probes that hang"
		inside   = `without --pid=host --cap-add SYS_ADMIN --cap-add SYS_PTRACE it cannot ask inside the network of a container (via = "container")`
	)
	c, err := configs.Parse("healthd.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	on := func(http, agent, dns string) *listeners {
		ls := &listeners{}
		var err error
		if ls.http, err = listenTCP("http", http); err != nil {
			t.Fatal(err)
		}
		if ls.agent, err = listenTCP("agent", agent); err != nil {
			t.Fatal(err)
		}
		if ls.dns, err = listenDNS(dns); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ls.close)
		return ls
	}
	for _, tt := range []struct {
		name    string
		from    runtime.Vantage
		ls      *listeners
		forgets bool
		want    []string
	}{
		{"bare", runtime.Vantage{Own: "hd", Networks: []string{"a", "b"}, Blind: true, CannotEnter: "x"}, on("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"), true, []string{forgets, networks, unheard, commands, inside}},
		{"with all rights", runtime.Vantage{Own: "hd", HostNetwork: true}, on("127.0.0.1:0", "", ""), false, nil},
		{"listens", runtime.Vantage{Own: "hd", Networks: []string{"a", "b"}}, on("0.0.0.0:0", "", "[::]:0"), false, []string{networks}},
	} {
		if got := containerLimits(&tt.from, c, tt.ls, tt.forgets); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if onRootDisk("") || onRootDisk("/proc") || !onRootDisk("/") {
		t.Error("onRootDisk does not tell file systems apart")
	}
}
