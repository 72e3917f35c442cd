package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/go-units"

	"healthd/runtime"
)

func TestStatusAgeBounds(t *testing.T) {
	for d := time.Duration(0); d < 5*365*24*time.Hour; d += d/97 + 370*time.Millisecond {
		for _, format := range []string{"Up %s", "Up %s (healthy)", "Up %s (Paused)", "Exited (17) %s ago", "Restarting (17) %s ago"} {
			text := fmt.Sprintf(format, units.HumanDuration(d))
			s := parseStatus(text)
			if !s.known || d < s.minAge || d > s.maxAge {
				t.Fatalf("%v: %q was read as %+v", d, text, s)
			}
			if (format[0] != 'U') != (s.exitCode == 17) {
				t.Fatalf("%q was read as %+v", text, s)
			}
		}
	}
}

func TestStatusWithoutAge(t *testing.T) {
	for _, text := range []string{"", "Created", "Dead", "Removal In Progress", "Up", "Up forever", "Exited", "Exited (x) 1 second ago", "Up -1 seconds", "Up 99999999999 years"} {
		if s := parseStatus(text); s.known {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
}

func TestAddress(t *testing.T) {
	v4 := endpoint{IPAddress: "10.0.0.2", GlobalIPv6Address: "fd00::2"}
	v6 := endpoint{GlobalIPv6Address: "fd00::3"}
	none := endpoint{}
	type endpoints = map[string]endpoint
	for _, tt := range []struct {
		name            string
		n               networking
		preferred       string
		address, ofName string
	}{
		{"bridge", networking{alive: true, endpoints: addressesOf(endpoints{"bridge": v4})}, "", "10.0.0.2", "bridge"},
		{"first by name", networking{alive: true, endpoints: addressesOf(endpoints{"b": v4, "a": v6})}, "", "fd00::3", "a"},
		{"preferred", networking{alive: true, endpoints: addressesOf(endpoints{"b": v4, "a": v6})}, "b", "10.0.0.2", "b"},
		{"preferred is not connected", networking{alive: true, endpoints: addressesOf(endpoints{"a": v6})}, "b", "fd00::3", "a"},
		{"not an address of a container", networking{alive: true, endpoints: addressesOf(endpoints{
			"a": {IPAddress: "127.0.0.1"}, "b": {IPAddress: "169.254.169.254"}, "c": {IPAddress: "metadata.example.com"}, "d": {IPAddress: "0.0.0.0"},
			"e": {GlobalIPv6Address: "::1"}, "f": {GlobalIPv6Address: "fe80::1"}, "g": {GlobalIPv6Address: "::ffff:127.0.0.1"}, "h": {IPAddress: "224.0.0.1"},
			"i": {IPAddress: "10.0.0.1:80"}, "j": {GlobalIPv6Address: "fd00::1%eth0"}})}, "", "", ""},
		{"without address", networking{alive: true, endpoints: addressesOf(endpoints{"a": none, "b": v4})}, "a", "10.0.0.2", "b"},
		{"not running", networking{endpoints: addressesOf(endpoints{"a": v4})}, "", "", ""},
		{"host", networking{alive: true, mode: "host", endpoints: addressesOf(endpoints{"host": none})}, "", "127.0.0.1", "host"},
		{"none", networking{alive: true, mode: "none", endpoints: addressesOf(endpoints{"none": none})}, "", "", ""},
		{"another's", networking{alive: true, mode: "container:x", shared: &networking{alive: true, mode: "host"}}, "", "127.0.0.1", "host"},
		{"another's that does not run", networking{alive: true, mode: "container:x", shared: &networking{mode: "host"}}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if address, name := tt.n.address(tt.preferred); address != tt.address || name != tt.ofName {
				t.Errorf("got %q of %q, want %q of %q", address, name, tt.address, tt.ofName)
			}
		})
	}
}

func TestResources(t *testing.T) {
	none, few := int64(0), int64(7)
	for name, r := range map[string]container.Resources{
		"": {}, "pids=7": {PidsLimit: &few},
		"memory=1": {Memory: 1}, "memory-swap=-1": {MemorySwap: -1}, "memory-reservation=2": {MemoryReservation: 2},
		"nano-cpus=3": {NanoCPUs: 3}, "cpu-quota=4": {CPUQuota: 4}, "cpu-period=5": {CPUPeriod: 5}, "cpu-shares=6": {CPUShares: 6},
		"cpuset-cpus=0-1": {CpusetCpus: "0-1"}, "cpuset-mems=0": {CpusetMems: "0"},
		"memory=1 cpuset-cpus=0 pids=7": {Memory: 1, CpusetCpus: "0", PidsLimit: &few},
	} {
		if got := resources(&r); got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	}
	if got := resources(&container.Resources{PidsLimit: &none}); got != "" {
		t.Errorf("got %q of no limit", got)
	}
}

func TestTranslate(t *testing.T) {
	ev, ok := translate(events.Message{Type: events.ContainerEventType, Action: "kill", TimeNano: 5, Actor: events.Actor{
		ID: "x", Attributes: map[string]string{"name": "web", "image": "i", "signal": "15", "a": "b"}}})
	if !ok || ev.ID != "x" || ev.Action != runtime.ActionKill || ev.Signal != 15 || ev.Name != "web" || len(ev.Labels) != 1 || ev.Time.UnixNano() != 5 {
		t.Errorf("got %+v, %v", ev, ok)
	}
	ev, ok = translate(events.Message{Type: events.NetworkEventType, Action: "disconnect", Actor: events.Actor{
		ID: "net", Attributes: map[string]string{"container": "x", "name": "n"}}})
	if !ok || ev.ID != "x" || ev.Action != runtime.ActionNetwork || ev.Labels != nil || ev.Name != "" {
		t.Errorf("got %+v, %v", ev, ok)
	}
	for action, want := range map[events.Action]runtime.Action{"remove": runtime.ActionDestroy, "exec_died": runtime.ActionExec, "died": runtime.ActionDie} {
		if ev, ok := translate(events.Message{Type: events.ContainerEventType, Action: action, Actor: events.Actor{ID: "x"}}); !ok || ev.Action != want {
			t.Errorf("Podman's %s: got %+v, want %s", action, ev, want)
		}
	}
	ev, ok = translate(events.Message{Type: events.NetworkEventType, Action: "connect", Actor: events.Actor{
		ID: "x", Attributes: map[string]string{"network": "n", "name": "web"}}})
	if !ok || ev.ID != "x" || ev.Action != runtime.ActionNetwork {
		t.Errorf("Podman's connect: got %+v, %v", ev, ok)
	}
	if ev, ok := translate(events.Message{Type: events.NetworkEventType, Action: "create", Actor: events.Actor{ID: "net"}}); ok {
		t.Errorf("got %+v of a network", ev)
	}
}

func TestState(t *testing.T) {
	for status, want := range map[string]runtime.State{
		"running": runtime.Running, "exited": runtime.Exited, "stopping": runtime.Running, "stopped": runtime.Exited,
	} {
		if got := stateOf(status); got != want {
			t.Errorf("%s: got %s, want %s", status, got, want)
		}
	}
}

// What engines tell of a command in a container before, while and after it runs.
func TestExecStates(t *testing.T) {
	for _, tt := range []struct {
		name, answer  string
		ended, failed bool
	}{
		{"Docker: not begun", `{"Running":false,"ExitCode":null,"Pid":0,"CanRemove":false}`, false, false},
		{"Docker: running", `{"Running":true,"ExitCode":null,"Pid":7,"CanRemove":false}`, false, false},
		{"Docker: ended", `{"Running":false,"ExitCode":0,"Pid":7,"CanRemove":false}`, true, false},
		{"Docker: failed to start", `{"Running":false,"ExitCode":126,"Pid":0,"CanRemove":false}`, true, true},
		{"Podman: not begun", `{"Running":false,"ExitCode":0,"Pid":0,"CanRemove":false}`, false, false},
		{"Podman: running", `{"Running":true,"ExitCode":0,"Pid":7,"CanRemove":false}`, false, false},
		{"Podman: ended", `{"Running":false,"ExitCode":0,"Pid":0,"CanRemove":true}`, true, false},
		{"Podman: ended with 3", `{"Running":false,"ExitCode":3,"Pid":0,"CanRemove":true}`, true, false},
	} {
		var s execState
		if err := json.Unmarshal([]byte(tt.answer), &s); err != nil {
			t.Fatal(err)
		}
		if got := s.ended(); got != tt.ended || got && s.failedToStart() != tt.failed {
			t.Errorf("%s: ended %v, failed to start %v", tt.name, got, s.failedToStart())
		}
	}
}

// The engine's answer has the PID of a process that is not the container's, or the engine may be that
// of another host.
func TestProcessOutsideTheContainerIsNotKilled(t *testing.T) {
	victim := exec.Command("sleep", "100")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", victim.Process.Pid))
	must(err)
	for _, id := range []string{"", "0123456789abcdef", strings.Repeat("a", 64), strings.TrimSpace(string(cgroup)), "/", "0"} {
		for _, endpoint := range []string{"unix:///run/x.sock", "tcp://127.0.0.1:2375"} {
			x := &execution{engine: &Engine{conf: Config{Endpoint: endpoint}}, container: id}
			err := x.tree(victim.Process.Pid, "x").Kill(t.Context())
			want := fmt.Sprintf("process %d of the engine's host cannot be seen from here", victim.Process.Pid)
			if err == nil || err.Error() != want {
				t.Errorf("ID %q: got %v, want %s", id, err, want)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	e := &Engine{conf: Config{Endpoint: "unix:///run/x.sock"}}
	denied := fmt.Errorf("get: %w", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)})
	want := "cannot connect to Docker at unix:///run/x.sock: permission denied; is healthd allowed to use the socket?"
	if got := e.explain(denied); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	want = "cannot get an answer from Docker at unix:///run/x.sock in time: context deadline exceeded"
	if got := e.explain(context.DeadlineExceeded); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// On another host, the number would be another process's here.
func TestPid(t *testing.T) {
	for _, tt := range []struct {
		endpoint, state string
		want            int
	}{
		{"unix:///run/docker.sock", "running", 7},
		{"unix:///run/docker.sock", "paused", 7},
		{"tcp://127.0.0.1:2375", "running", 7},
		{"unix:///run/docker.sock", "exited", 0},
		{"tcp://203.0.113.1:2375", "running", 0},
	} {
		e, err := New(Config{Endpoint: tt.endpoint})
		if err != nil {
			t.Fatal(err)
		}
		in := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
			ID: "c1", State: &container.State{Status: container.ContainerState(tt.state), Pid: 7},
		}}
		if got := e.describe(&in, networking{}).Pid; got != tt.want {
			t.Errorf("%s %s: %d", tt.endpoint, tt.state, got)
		}
	}
}
