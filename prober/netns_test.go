package prober

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// insideHandlers are all handlers that open a socket inside a container called name, with
// the output of a Success.
func insideHandlers(name string) map[string]struct {
	h    Handler
	want string
} {
	return map[string]struct {
		h    Handler
		want string
	}{
		"http":             {Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTP}}, name},
		"http, by default": {Handler{HTTPGet: &HTTPGet{Port: insideHTTP}}, name},
		"http, address":    {Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Host: "127.0.0.1", Port: insideHTTP}}, name},
		"http, name":       {Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Host: "localhost", Port: insideHTTP}}, name},
		"http, redirect":   {Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTP, Path: "/redirect"}}, name},
		"https":            {Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTPS, Scheme: "https"}}, name},
		"tcp":              {Handler{TCPSocket: &TCPSocket{Via: ViaContainer, Port: insideTCP}}, ""},
		"tcp, by default":  {Handler{TCPSocket: &TCPSocket{Port: insideTCP}}, ""},
		"tcp, name":        {Handler{TCPSocket: &TCPSocket{Via: ViaContainer, Host: "localhost", Port: insideTCP}}, ""},
		"grpc":             {Handler{GRPC: &GRPC{Via: ViaContainer, Port: insideGRPC, Service: name}}, "service healthy"},
		"grpc, by default": {Handler{GRPC: &GRPC{Port: insideGRPC, Service: name}}, "service healthy"},
	}
}

// All containers listen at the same ports.
func TestProbesInsideNamespaces(t *testing.T) {
	before := descriptors(t)
	prober := New(Config{})
	for _, name := range []string{"red", "blue"} {
		c := startInside(t, name)
		for kind, tt := range insideHandlers(name) {
			p, err := prober.Probe(tt.h, c.target())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success || r.Output != tt.want {
					t.Errorf("%s of %s: got %v %s %q, want %q", kind, name, r.Outcome, r.Cause, r.Output, tt.want)
				}
			}
			if !tt.h.Inside("") {
				t.Errorf("%s does not say that it goes inside", kind)
			}
		}
		for kind, h := range map[string]LifecycleHandler{
			"http":             {HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTP}},
			"https":            {HTTPGet: &HTTPGet{Port: insideHTTPS, Scheme: "https"}},
			"https, in clear":  {HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTP, Scheme: "https"}},
			"tcp":              {TCPSocket: &TCPSocket{Via: ViaContainer, Port: insideTCP}},
			"tcp, by default":  {TCPSocket: &TCPSocket{Port: insideTCP}},
			"http, by address": {HTTPGet: &HTTPGet{Via: ViaContainer, Host: "127.0.0.1", Port: insideHTTP}},
		} {
			if r := mustHook(t, Config{}, h, c.target()).Run(t.Context()); r.Err != nil || !h.Inside("") {
				t.Errorf("%s hook of %s: %v", kind, name, r.Err)
			}
		}
		// From inside, a port that nobody has is refused, which is the container's fault.
		r := mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Via: ViaContainer, Port: 1}}, c.target()).Ask(t.Context(), longTimeout)
		wantResult(t, r, Failure, Refused)
		r = mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Via: ViaContainer, Host: "localhost", Port: 1}}, c.target()).Ask(t.Context(), longTimeout)
		wantResult(t, r, Failure, Refused)
		wantOutput(t, r, "dial tcp 127.0.0.1:1: connect: connection refused")
		c.stop()
		c.namespace.Close()
	}
	wantAllHome(t)
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
	if after := descriptors(t); after > before+1 { // healthd's own namespace
		t.Errorf("%d descriptors became %d", before, after)
	}
}

// HTTP/2 lets requests to one address share a connection, but not those inside different
// namespaces.
func TestNamespacesShareNoConnection(t *testing.T) {
	prober := New(Config{})
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, name := range []string{"red", "blue"} {
		c := startInside(t, name)
		for range 4 {
			p, err := prober.Probe(Handler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTPS, Scheme: "https", Path: "/slow"}}, c.target())
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for range 10 {
					if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success || r.Output != name {
						t.Errorf("%s answered as %v %q", name, r.Outcome, r.Output)
					}
				}
			})
		}
	}
	wg.Wait()
}

// Where the container is asked says Via; its address decides only where that is not set.
func TestVia(t *testing.T) {
	address := "127.0.0.1"
	web := webServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("host")) })
	c := startInside(t, "inside")
	for _, tt := range []struct {
		name, address string
		get           HTTPGet
		want          Outcome
		output        string
	}{
		{"address", address, HTTPGet{Port: web}, Success, "host"},
		{"address, via host", address, HTTPGet{Via: ViaHost, Port: web}, Success, "host"},
		{"address, via container", address, HTTPGet{Via: ViaContainer, Port: insideHTTP}, Success, "inside"},
		{"no address", "", HTTPGet{Port: insideHTTP}, Success, "inside"},
		{"no address, host", "", HTTPGet{Port: web, Host: address}, Success, "host"},
		{"no address, via host", "", HTTPGet{Via: ViaHost, Port: web}, Unknown, "container has no address"},
	} {
		target := Target{ID: c.id, Address: tt.address, Namespace: c.namespace}
		if r := mustProbe(t, Config{}, Handler{HTTPGet: &tt.get}, target).Ask(t.Context(), longTimeout); r.Outcome != tt.want || r.Output != tt.output {
			t.Errorf("%s: got %v %q, want %v %q", tt.name, r.Outcome, r.Output, tt.want, tt.output)
		}
	}
}

// wantNotAsked wants all probes to be Unknown.
func wantNotAsked(t *testing.T, target Target, output string) {
	t.Helper()
	for kind, tt := range insideHandlers("any") {
		r := mustProbe(t, Config{}, tt.h, target).Ask(t.Context(), longTimeout)
		if r.Outcome != Unknown || r.Cause != NotAsked || !strings.Contains(r.Output, output) {
			t.Errorf("%s: got %v %s %q, want %q", kind, r.Outcome, r.Cause, r.Output, output)
		}
	}
	h := LifecycleHandler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTPS, Scheme: "https"}}
	if r := mustHook(t, Config{}, h, target).Run(t.Context()); !r.NotAsked || !strings.Contains(r.Err.Error(), output) {
		t.Errorf("hook: got %+v, want %q", r, output)
	}
}

// wantEnded wants all probes to fail when the engine has had time to tell of the end.
func wantEnded(t *testing.T, target Target) {
	t.Helper()
	wantNotAsked(t, target, "cannot enter the container's network namespace: its run has ended")
	target.Namespace.endSeen = target.Namespace.endSeen.Add(-endPatience)
	const output = "the container's main process has ended"
	for kind, tt := range insideHandlers("any") {
		r := mustProbe(t, Config{}, tt.h, target).Ask(t.Context(), longTimeout)
		if r.Outcome != Failure || r.Cause != Refused || !strings.Contains(r.Output, output) {
			t.Errorf("%s: got %v %s %q, want %q", kind, r.Outcome, r.Cause, r.Output, output)
		}
	}
	h := LifecycleHandler{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTPS, Scheme: "https"}}
	if r := mustHook(t, Config{}, h, target).Run(t.Context()); r.NotAsked || r.Err == nil || !strings.Contains(r.Err.Error(), output) {
		t.Errorf("hook: got %+v, want %q", r, output)
	}
}

func TestNamespaceThatIsGone(t *testing.T) {
	t.Run("before it was entered", func(t *testing.T) {
		c := startInside(t, "any")
		c.stop()
		wantNotAsked(t, c.target(), "is not there; it has just ended, or healthd does not see the host's processes (--pid=host)")
	})
	t.Run("after it was entered", func(t *testing.T) {
		c := startInside(t, "any")
		r := mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Port: insideTCP}}, c.target()).Ask(t.Context(), longTimeout)
		wantResult(t, r, Success, "")
		c.stop()
		wantEnded(t, c.target())
	})
	t.Run("closed", func(t *testing.T) {
		c := startInside(t, "any")
		c.namespace.Close()
		c.namespace.Close()
		wantNotAsked(t, c.target(), "cannot enter the container's network namespace: its run has ended")
	})
	t.Run("on another host", func(t *testing.T) {
		n := NewNamespace(0, "c1")
		wantNotAsked(t, Target{ID: "c1", Namespace: n}, "its engine is on another host")
		wantNotAsked(t, Target{ID: "c1"}, "its engine is on another host")
		n.Close()
	})
}

// Another process that has the PID is never asked.
func TestReusedPID(t *testing.T) {
	old, next := startInside(t, "any"), startInside(t, "any")
	t.Run("before the namespace was entered", func(t *testing.T) {
		n := NewNamespace(next.namespace.pid, old.id)
		defer n.Close()
		wantNotAsked(t, Target{ID: old.id, Namespace: n}, fmt.Sprintf("process %d is another container's or host's", n.pid))
		own := NewNamespace(os.Getpid(), old.id)
		defer own.Close()
		wantNotAsked(t, Target{ID: old.id, Namespace: own}, "is another container's or host's")
	})
	t.Run("after it was entered", func(t *testing.T) {
		r := mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Port: insideTCP}}, old.target()).Ask(t.Context(), longTimeout)
		wantResult(t, r, Success, "")
		old.stop()
		old.namespace.pid = next.namespace.pid
		wantEnded(t, old.target())
		own, _ := ownNamespace()
		if fd, err := visit(old.namespace.enterByPath, own, unix.AF_INET); err == nil {
			t.Errorf("entered by path, and opened descriptor %d", fd)
		}
	})
}

// In a PID namespace of its own, but with the host's /proc, healthd opens another process than
// the one that /proc shows to be the container's.
func TestProcOfAnotherPIDNamespace(t *testing.T) {
	c, other := startInside(t, "any"), startInside(t, "any")
	for pid, want := range map[int]error{c.namespace.pid: nil, other.namespace.pid: unix.ESRCH, os.Getpid(): unix.ESRCH} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.namespace.checkProcess(fd); !errors.Is(err, want) {
			t.Errorf("process %d: got %v, want %v", pid, err, want)
		}
		_ = unix.Close(fd)
	}
}

// With few descriptors left it is not known whose the process is.
func TestNoDescriptorToLook(t *testing.T) {
	c := startInside(t, "any")
	var old unix.Rlimit
	fd, err := unix.PidfdOpen(c.namespace.pid, 0)
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &old)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd) + 1, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err = c.namespace.open()
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	if err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("got %v", err)
	}
	if err := c.namespace.open(); err != nil {
		t.Error(err)
	}
}

func TestInContainer(t *testing.T) {
	c := startInside(t, "any")
	for id, want := range map[string]bool{c.id: true, c.id[:12]: false, "": false, "docker": false, "x" + c.id: false} {
		if got, err := inContainer(c.namespace.pid, id); got != want || err != nil {
			t.Errorf("%q: %v, %v", id, got, err)
		}
	}
}

// The host knows localhost as ::1, too, which many containers do not have.
func TestNameInsideWithoutIPv6(t *testing.T) {
	c := startInside(t, "any")
	own, err := ownNamespace()
	if err == nil {
		err = c.namespace.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	var switchOff error
	fd, err := visit(func() error {
		err := c.namespace.enter()
		if err == nil {
			switchOff = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
		}
		return err
	}, own, unix.AF_INET)
	if err != nil || switchOff != nil {
		t.Fatal(err, switchOff)
	}
	_ = unix.Close(fd)
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()
	for _, addrs := range [][]netip.Addr{{v4, v6}, {v6, v4}} {
		conn, err := c.namespace.dialAny(t.Context(), addrs, insideTCP)
		if err != nil {
			t.Errorf("%v: %v", addrs, err)
			continue
		}
		_ = conn.Close()
		if _, err = c.namespace.dialAny(t.Context(), addrs, 1); err == nil || classify(err) != Refused {
			t.Errorf("%v: got %v, want a refusal", addrs, err)
		}
	}
	if _, err := c.namespace.dialAny(t.Context(), []netip.Addr{v6}, insideTCP); err == nil || classify(err) != NotAsked {
		t.Errorf("IPv6 alone: %v", err)
	}
}

// Before Linux 5.8, setns(2) took no pidfd.
func TestEnterByPath(t *testing.T) {
	c := startInside(t, "any")
	own, err := ownNamespace()
	if err == nil {
		err = c.namespace.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	wantConnects := func(want bool) {
		t.Helper()
		fd, err := visit(c.namespace.enterByPath, own, unix.AF_INET)
		if err == nil {
			_ = unix.SetNonblock(fd, false)
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: insideTCP, Addr: [4]byte{127, 0, 0, 1}})
			_ = unix.Close(fd)
		}
		if (err == nil) != want {
			t.Errorf("got %v", err)
		}
	}
	wantConnects(true)
	c.stop()
	wantConnects(false)
	wantAllHome(t)
}

// A thread that cannot go back ends. Its socket is inside all the same.
func TestNoWayBack(t *testing.T) {
	c := startInside(t, "any")
	if err := c.namespace.open(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var fd int
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { fd, err = visit(c.namespace.enter, -1, unix.AF_INET) })
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.SetNonblock(fd, false)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: insideTCP, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Error(err)
		}
		_ = unix.Close(fd)
	}
	wantAllHome(t)
}

// mainThreadRole makes the test binary try to leave its main thread in a namespace.
const mainThreadRole = "PROBER_TEST_MAIN_THREAD"

func visitOnMainThread() int {
	if !mainThread {
		return fail(fmt.Errorf("not the main thread"))
	}
	if _, err := visit(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, -1, unix.AF_INET); err != nil {
		return fail(err)
	}
	if now, err := os.Readlink("/proc/self/ns/net"); now != firstNamespace {
		return fail(fmt.Errorf("the main thread is in %s, not %s, %v", now, firstNamespace, err))
	}
	return 0
}

// Go does not end the main thread with a goroutine that is locked to it.
func TestMainThreadStays(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mainThreadRole+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// powerlessRole makes the test binary ask itself inside its own namespace, without
// some of root's capabilities.
const (
	powerlessRole = "PROBER_TEST_POWERLESS"
	withoutPidfd  = "pidfd_open"
)

// forbidPidfd takes pidfd_open(2) away from this process, as an old kernel or a seccomp filter does.
func forbidPidfd() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_PIDFD_OPEN},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

func askWithoutCapabilities() int {
	if os.Getenv(powerlessRole) == withoutPidfd {
		if err := forbidPidfd(); err != nil {
			return fail(err)
		}
	}
	fmt.Println(CanEnterNamespaces())
	own, err := ownNamespace()
	if err != nil {
		return fail(err)
	}
	fd, err := visit(func() error { return unix.Setns(own, unix.CLONE_NEWNET) }, own, unix.AF_INET)
	fmt.Println(fd > 0, err)
	return 0
}

func TestWithoutCapabilities(t *testing.T) {
	if err := CanEnterNamespaces(); err != nil {
		t.Errorf("root: %v", err)
	}
	const denied = "cannot enter the container's network namespace: operation not permitted (healthd needs CAP_SYS_ADMIN and CAP_SYS_PTRACE; as a service, the drop-in namespaces.conf)"
	for lacks, want := range map[string]string{
		withoutPidfd:  "cannot enter the container's network namespace: cannot open processes: function not implemented\ntrue <nil>\n",
		"-sys_admin":  denied + "\nfalse " + denied + "\n",
		"-sys_ptrace": "cannot enter the container's network namespace: healthd has no CAP_SYS_PTRACE\ntrue <nil>\n",
	} {
		cmd := exec.Command("setpriv", "--bounding-set", lacks, "--inh-caps", lacks, os.Args[0])
		if lacks == withoutPidfd {
			cmd = exec.Command(os.Args[0])
		}
		cmd.Env = append(os.Environ(), powerlessRole+"="+lacks)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v, got %q, want %q", lacks, err, out, want)
		}
	}
}

// A Close may come while probes are under way, and leaves no descriptor.
func TestManyNamespaces(t *testing.T) {
	c := startInside(t, "any")
	before := descriptors(t)
	for range 10_000 {
		n := NewNamespace(c.namespace.pid, c.id)
		if err := n.open(); err != nil {
			t.Fatal(err)
		}
		n.Close()
	}
	prober := New(Config{})
	for range 200 {
		n := NewNamespace(c.namespace.pid, c.id)
		var wg sync.WaitGroup
		for range 3 {
			p, err := prober.Probe(Handler{TCPSocket: &TCPSocket{Port: insideTCP}}, Target{ID: c.id, Namespace: n})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if r := p.Ask(t.Context(), longTimeout); r.Outcome == Failure {
					t.Errorf("%+v", r)
				}
			})
		}
		n.Close()
		wg.Wait()
	}
	if after := descriptors(t); after > before+1 {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

var netnsProbes = flag.Int("netns-probes", 4000, "how many probes TestNamespacesComeAndGo asks")

// Containers end in the middle of their probes, and others come.
func TestNamespacesComeAndGo(t *testing.T) {
	const atOnce, probesOfEach = 20, 100
	before := descriptors(t)
	prober := New(Config{})
	var asked, runs atomic.Int64 // probes that were not Unknown
	var outcomes [3]atomic.Int64
	var wg sync.WaitGroup
	for i := range atOnce {
		wg.Go(func() {
			name := fmt.Sprintf("c%d", i)
			for asked.Load() < int64(*netnsProbes) && !t.Failed() {
				c := startInside(t, name)
				runs.Add(1)
				ctx, cancel := context.WithCancel(t.Context())
				var probes sync.WaitGroup
				var mine atomic.Int64
				var stopping atomic.Bool
				half := make(chan struct{})
				for _, h := range []Handler{
					{HTTPGet: &HTTPGet{Port: insideHTTP}},
					{HTTPGet: &HTTPGet{Via: ViaContainer, Port: insideHTTP}},
					{TCPSocket: &TCPSocket{Via: ViaContainer, Port: insideTCP}},
				} {
					p, err := prober.Probe(h, c.target())
					if err != nil {
						t.Error(err)
						continue
					}
					probes.Go(func() {
						for ctx.Err() == nil {
							r := p.Ask(ctx, longTimeout)
							outcomes[r.Outcome].Add(1)
							if r.Outcome == Unknown {
								return
							}
							asked.Add(1)
							if r.Outcome == Failure && !stopping.Load() {
								t.Errorf("%s: %+v", name, r)
							}
							if h.HTTPGet != nil && r.Outcome == Success && r.Output != name {
								t.Errorf("%s answered as %q", name, r.Output)
							}
							if mine.Add(1) == probesOfEach {
								close(half)
							}
						}
					})
				}
				<-half
				stopping.Store(true)
				c.stop()
				c.namespace.Close()
				cancel()
				probes.Wait()
			}
		})
	}
	wg.Wait()
	wantAllHome(t)
	if after := descriptors(t); after > before+1 {
		t.Errorf("%d descriptors became %d", before, after)
	}
	t.Logf("%d probes of %d containers, %d at once: %d succeeded, %d failed, %d more found their container gone",
		asked.Load(), runs.Load(), atOnce, outcomes[Success].Load(), outcomes[Failure].Load(), outcomes[Unknown].Load())
}
