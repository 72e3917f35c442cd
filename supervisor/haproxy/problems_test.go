package haproxy

import (
	"healthd/e2e/ports"

	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/e2e/patience"
)

// A socket that does not answer is reported once, and does not keep the other HAProxy
// from being updated.
func TestSocketsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	for name, tc := range map[string]struct {
		serve func(net.Conn) // nil: nobody listens
		want  string
	}{
		"none":           {nil, "last state: connect: no such file or directory; is HAProxy running?"},
		"hangs":          {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, "i/o timeout"},
		"closes":         {func(conn net.Conn) { readLine(conn) }, "it closed the connection in the middle of an answer"},
		"closes mid-way": {func(conn net.Conn) { readLine(conn); fmt.Fprint(conn, "\n> Name: HAP") }, "it closed the connection in the middle of an answer"},
		"something else": {func(conn net.Conn) { readLine(conn); fmt.Fprint(conn, "\n> "+strings.Repeat("+OK\r\n> ", 3)) }, `show info: it answers "+OK"`},
		"master": {func(conn net.Conn) {
			readLine(conn)
			fmt.Fprint(conn, "\nmaster> ")
			_, _ = io.Copy(io.Discard, conn)
		}, "it is the socket of HAProxy's master: healthd needs a stats socket of its worker"},
		"endless":          {func(conn net.Conn) { readLine(conn); endless(conn, "x") }, "its answer is longer than 16 MiB"},
		"endless in lines": {func(conn net.Conn) { readLine(conn); endless(conn, strings.Repeat("x", 1023)+"\n") }, "its answer is longer than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			if tc.serve != nil {
				serve(t, path, tc.serve)
			}
			e := &fakeSupervisor{t: t, b: b, synced: true, views: b.newSupervisor().views}
			e.startDaemon(path)
			e.setIn("web", "c1", "127.0.0.1", 81, "up")
			e.waitForEvent(EventLost, "HAProxy at "+path+" cannot be updated, its servers keep their last state: ")
			e.waitForEvent(EventLost, tc.want)
			time.Sleep(500 * time.Millisecond) // several tries
			if lost := e.recorded(EventLost); len(lost) != 1 {
				t.Errorf("%d events: %q", len(lost), lost)
			}
			if all := e.h.Problems(); len(all) != 1 || !strings.Contains(all[0], tc.want) {
				t.Errorf("problems %q", all)
			}
			if e.h.LastUp("id-c1") != "" {
				t.Error("it knows who is the last one up")
			}
		})
	}
}

func TestWhatHindersAConnection(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ECONNREFUSED: "connect: connection refused; is HAProxy running?",
		syscall.ENOENT:       "connect: no such file or directory; is HAProxy running?",
		syscall.EACCES:       "connect: permission denied; healthd's user may not use the socket (user, group and mode of HAProxy's stats socket)",
		syscall.EAGAIN:       "connect: resource temporarily unavailable",
	} {
		err := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}
		if got := unreachable(err); got.Error() != want || !errors.Is(got, errno) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func readLine(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadString('\n') }

func endless(conn net.Conn, what string) {
	text := []byte(strings.Repeat(what, 64<<10/len(what)))
	for {
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

// serve answers each connection in a way that HAProxy does not.
func serve(t *testing.T, path string, answer func(net.Conn)) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
}

func TestWrongLevel(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.newSupervisor()
	e.startDaemon(b.operatorSocket(), b.socket())
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry) // by the other socket
	e.set("c1", "A", "down")
	b.waitForServers("web", "c1 A DOWN (agent) 100", sorry)
	e.set("c2", "B", "up")
	e.waitForEvent(EventLost, b.operatorSocket()+" cannot be updated, its servers keep their last state: it refuses commands (Permission denied): its stats socket needs level admin")
}

// What cannot be done for one backend or server is reported, and does not affect others.
func TestProblemsAreRecorded(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"backend static\n  balance static-rr\n  server s1 127.0.0.9:81\n"+
		"backend named\n  server c3 127.0.0.9:81\n")
	e := b.startPushing()
	e.setIn("nowhere", "c1", "127.0.0.1", b.port("A"), "up")
	e.setIn("static", "c2", "127.0.0.1", b.port("A"), "up")
	e.setIn("named", "c3", "127.0.0.9", 81, "up")
	e.setIn("web", "c;4", "127.0.0.1", b.port("A"), "up")
	e.setIn("web", "c5", "", 80, "up") // it has no network
	e.set("c6", "A", "up")
	b.waitForServers("web", "c6 A UP 100", sorry)
	b.waitForServers("static", "s1 127.0.0.9:81 no check 1")
	at := "HAProxy at " + b.socket() + ": "
	e.waitForEvent(EventError, at+"there is no backend nowhere")
	e.waitForEvent(EventError, `is answered with "Backend must use a dynamic load balancing to support dynamic servers."`)
	e.waitForEvent(EventError, at+"server named/c3 has no agent-check: healthd cannot set the state of a server without one")
	e.waitForEvent(EventError, at+`container c;4 cannot be a server: HAProxy takes no ";" in names`)
	time.Sleep(3 * pollInterval) // several looks
	if errs := e.recorded(EventError); len(errs) != 4 {
		t.Errorf("%d events:\n%s", len(errs), strings.Join(errs, "\n"))
	}
	problems := testutil.ToFloat64(e.h.metrics.problems.WithLabelValues(b.socket()))
	if refused := testutil.ToFloat64(e.h.metrics.errors.WithLabelValues(b.socket())); problems != 4 || refused < 2 || refused > 3 {
		t.Errorf("metrics count %v problems, want 4, and %v refusals: it is to be tried again later and later", problems, refused)
	}
	e.waitForProblems("add server static/c2", "container c;4 cannot", "named/c3", "no backend nowhere")
	for _, name := range []string{"c1", "c2", "c3", "c;4"} {
		e.set(name, "A", "gone")
	}
	patience.Until(t, "the problems are forgotten", func() error {
		if n := testutil.ToFloat64(e.h.metrics.problems.WithLabelValues(b.socket())); n != 0 {
			return fmt.Errorf("metrics count %v problems", n)
		}
		return nil
	})
	e.waitForProblems()
	b.waitForServers("web", "c6 A UP 100", sorry)
}

// waitForProblems waits until people are told of problems with these texts, in their order, and of no others.
func (e *fakeSupervisor) waitForProblems(want ...string) {
	e.t.Helper()
	patience.Until(e.t, "these are the problems", func() error {
		all := e.h.Problems()
		if !slices.EqualFunc(all, want, strings.Contains) {
			return fmt.Errorf("they are %q, want %q", all, want)
		}
		return nil
	})
}

// A server that is to get requests, and that HAProxy's own check has down, is a problem until it is up.
func TestServerDownByItsOwnCheck(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	e.setIn("web", "c2", "127.0.0.1", ports.Free(t), "up")
	e.waitForEvent(EventError, "server web/c2 is ready and gets no requests: HAProxy's own check has it DOWN (L4CON: cannot connect). Compare that check, its port and its TLS, with the container")
	e.waitForProblems("web/c2")
	e.set("c2", "B", "up")
	b.waitForServers("web", "c1 A UP 100", "c2 B UP 100", sorry)
	e.waitForProblems()
	if errs := e.recorded(EventError); len(errs) != 1 {
		t.Errorf("events %q", errs)
	}
}

// What the servers of the configuration say of TLS and of checks, HAProxy does not give to servers that are added: requests
// in plain text to a TLS port would be worse than no server, and a check at another port would have it down.
func TestServersLikeTheirSiblings(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"backend secure\n  server s1 127.0.0.9:81 ssl verify none\nbackend checked\n  server s1 127.0.0.9:81 check port 1\n"+
		"backend sorry\n  server s1 127.0.0.9:81 ssl verify none check port 1 backup\n")
	e := b.startPushing()
	e.setIn("secure", "c1", "127.0.0.1", b.port("A"), "up")
	e.setIn("checked", "c2", "127.0.0.1", b.port("A"), "up")
	e.setIn("sorry", "c3", "127.0.0.1", b.port("A"), "up")
	b.waitForServers("sorry", "c3 A UP 100", "s1 127.0.0.9:81 DOWN 1")
	e.waitForEvent(EventError, "container c1 gets no server in backend secure: its servers use TLS, and one that is added would not: give it slots (server-template)")
	e.waitForEvent(EventError, "server checked/c2 is ready and gets no requests: HAProxy's own check has it DOWN (L4CON: cannot connect). Compare that check, its port and its TLS, with the container")
}

// After a refusal, different commands are sent at once.
func TestNewCommandsAfterARefusal(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.setIn("web", "c1", "127.0.0.1", 70000, "up")
	e.waitForEvent(EventError, "invalid port '70000'")
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
}

func TestAnswersOnTCP(t *testing.T) {
	t.Parallel()
	port := ports.Free(t)
	b := startBalancer(t, dynamic+fmt.Sprintf("global\n  stats socket ipv4@127.0.0.1:%d level admin\n", port))
	e := b.newSupervisor()
	e.startDaemon(fmt.Sprintf("ipv4@127.0.0.1:%d", port))
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
}
