package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

func view(name string, change func(*core.View)) *core.View {
	v := &core.View{
		Container: &runtime.Container{ID: name + "-id", Name: name}, Spec: &core.Spec{}, Service: "web",
		State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}, Conditions: core.Conditions{Started: core.Condition{Status: true}}}},
	}
	change(v)
	return v
}

func board() *supervisor.Board {
	return supervisor.NewBoard(nil,
		view("ready", func(v *core.View) { v.State.Conditions.Ready.Status = true }),
		view("failing", func(v *core.View) {
			v.State.Health.Probes[core.Readiness].Outcome = prober.Failure
			v.State.Health.Probes[core.Readiness].Last.Output = "up 100%\nup 100%\n"
		}),
		view("draining", func(v *core.View) { v.State.Action.Stopping = core.ByLiveness }),
		view("hung", func(v *core.View) {
			v.State.Action.Stopping = core.ByLiveness
			v.State.Health.Probes[core.Readiness].Result = prober.Failure
		}),
		view("gated", func(v *core.View) {
			v.Spec, v.State.Action.Stopping = &core.Spec{ReadinessGates: []string{"example.com/warm"}}, core.ByLiveness
		}),
		view("starting", func(v *core.View) { v.State.Action.Stopping, v.State.Conditions.Started.Status = core.ByStartup, false }),
		view("wrong", func(v *core.View) { v.Spec, v.Invalid, v.Service = nil, "bad\nlabel", "" }),
	)
}

func unsticky(string) bool { return false }

// Where clients stick to servers, one that drains is down: at 0% HAProxy would go on to send them there.
func TestDrainWhereClientsStick(t *testing.T) {
	of := func(backend string) func(*core.View) {
		return func(v *core.View) {
			v.Spec, v.State.Action.Stopping = &core.Spec{Publish: core.Publish{HAProxy: core.HAProxy{Backend: backend}}}, core.ByLiveness
		}
	}
	b := supervisor.NewBoard(nil, view("sticky", of("sticky")), view("other", of("other")), view("none", of("")))
	for name, want := range map[string]string{"sticky": "down # draining\n", "other": draining, "none": draining} {
		if got := reply(b, func(backend string) bool { return backend != "other" }, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func start(t *testing.T) (address string) {
	t.Helper()
	return startWith(t, board())
}

func startWith(t testing.TB, board *supervisor.Board) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, board, unsticky, maxConnections) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// ask sends something and returns all of the answer.
func ask(t *testing.T, address, send string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// Until healthd knows all containers, it does not answer for unknown ones.
func TestNoAnswerBeforeTheFirstSync(t *testing.T) {
	board := supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}}, view("ready", func(v *core.View) { v.State.Conditions.Ready.Status = true }))
	address := startWith(t, board)
	for send, want := range map[string]string{"web/ready\n": "up 100%\n", "web/other\n": "", "other\n": ""} {
		if got := ask(t, address, send); got != want {
			t.Errorf("%q: got %q, want %q", send, got, want)
		}
	}
}

// What has gone from an engine whose containers are known waits for no other engine.
func TestAnswersForGoneContainers(t *testing.T) {
	of := func(v *core.View) { v.Container.Runtime, v.State.Conditions.Ready.Status = "docker", true }
	board := supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}, {Name: "containerd"}}, view("a", of), view("b", of))
	board.Remove("b-id")
	for name, want := range map[string]string{
		"web/a": up, "web/b": "down # UnknownContainer\n", "b": "down # UnknownContainer\n", "docker:b": "down # UnknownContainer\n", "web/c": "",
	} {
		if got := reply(board, unsticky, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	address := start(t)
	for _, tt := range []struct{ send, want string }{
		{"ready\n", "up 100%\n"},
		{"web/ready\n", "up 100%\n"},
		{"web/ready\r\n", "up 100%\n"},
		{" web/ready ,and more", "up 100%\n"},
		{"web/ready", "up 100%\n"},
		{"other/ready\n", "down # OtherService\n"},
		{"/ready\n", "down # OtherService\n"},
		{"failing\n", "down # ReadinessFailed\n"},
		{"web/failing,", "down # ReadinessFailed\n"},
		{"draining\n", "up 0% # draining\n"},
		{"hung\n", "down # Draining\n"},
		{"gated\n", "down # Draining\n"},
		{"starting\n", "down # Draining\n"},
		{"wrong\n", "down # Invalid\n"},
		{"nobody\n", "down # UnknownContainer\n"},
		{"web/readyn", "down # UnknownContainer\n"},
		{"\n", "down # NoName\n"},
		{",", "down # NoName\n"},
		{"\x00\xff\x1b[2J\n", "down # UnknownContainer\n"},
		{"ready\n" + strings.Repeat("x", 60_000), "up 100%\n"},
		{"ready" + strings.Repeat("\n", 60_000), "up 100%\n"},
		{strings.Repeat("x", maxName), "down # UnknownContainer\n"},
		{strings.Repeat("x", maxName+1), "down # NameTooLong\n"},
		{strings.Repeat("x", 60_000), "down # NameTooLong\n"},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "down # UnknownContainer\n"},
	} {
		if got := ask(t, address, tt.send); got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.send, got, tt.want)
		}
	}
}

func TestManyClients(t *testing.T) {
	address := start(t)
	silent := make([]net.Conn, 20) // they say nothing and stay
	for i := range silent {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent[i] = conn
	}
	if got := ask(t, address, "ready\n"); got != up {
		t.Errorf("got %q", got)
	}
	answer, err := io.ReadAll(silent[0])
	if err != nil || string(answer) != "down # NoName\n" {
		t.Errorf("a silent client got %q, %v", answer, err)
	}
}

// The timeouts of readName, in a synctest bubble.
func TestReadNameWaits(t *testing.T) {
	calm, crowd := timeoutsFor(false), timeoutsFor(true)
	for _, tt := range []struct {
		name  string
		p     timeouts
		bytes string
		every time.Duration
		want  string
		err   error
		took  time.Duration
	}{
		{"silence after a name", calm, "ab", 0, "ab", nil, nameTimeout},
		{"nothing at all", calm, "", 0, "", errNoData, time.Second + lateRead},
		{"slowly, but on time", calm, "abc\n", 40 * time.Millisecond, "abc", nil, 120 * time.Millisecond},
		{"too slowly", calm, "abc\n", 60 * time.Millisecond, "a", nil, nameTimeout},
		{"byte by byte for ever", calm, strings.Repeat("a", 100), 30 * time.Millisecond, strings.Repeat("a", 67), nil, 2 * time.Second},
		{"silence after a name in a crowd", crowd, "ab", 0, "ab", nil, nameTimeout},
		{"nothing at all in a crowd", crowd, "", 0, "", errNoData, nameTimeout},
		{"byte by byte in a crowd", crowd, strings.Repeat("a", 100), 30 * time.Millisecond, "aa", nil, nameTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i, c := range []byte(tt.bytes) {
						if i > 0 && tt.every > 0 {
							time.Sleep(tt.every)
						}
						if _, err := client.Write([]byte{c}); err != nil {
							return
						}
					}
				}()
				begin := time.Now()
				got, _, err := readName(server, tt.p)
				if took := time.Since(begin); !errors.Is(err, tt.err) || got != tt.want || took != tt.took {
					t.Errorf("%q after %v (%v), want %q after %v", got, took, err, tt.want, tt.took)
				}
				server.Close()
				<-done
			})
		})
	}
}

// lateConn is a connection of a healthd that did not get the CPU: the data and the deadline
// are both there.
type lateConn struct {
	net.Conn
	reads int
}

func (s *lateConn) Read(b []byte) (int, error) {
	if s.reads++; s.reads == 1 {
		time.Sleep(5 * time.Second)
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(b)
}

func TestReadNameLate(t *testing.T) {
	for name, crowded := range map[string]bool{"calm": false, "crowd": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				go func() { _, _ = io.WriteString(client, "web/ready\n") }()
				got, all, err := readName(&lateConn{Conn: server}, timeoutsFor(crowded))
				if got != "web/ready" || !all || err != nil {
					t.Errorf("got %q, %v, %v", got, all, err)
				}
			})
		})
	}
}

func TestClean(t *testing.T) {
	for reason, want := range map[string]string{
		"": "NotReady", " \n": "NotReady", "a\nup 100%": "a?up 100%", "ä\x00": "??",
		strings.Repeat("x", 100): strings.Repeat("x", maxReason),
	} {
		if got := cleanReason(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", "ready\n", "web/ready,", "\x00", "a/b/c\n", ",,\n", "draining\r\n"} {
		f.Add([]byte(s))
	}
	b := board()
	f.Fuzz(func(t *testing.T, sent []byte) {
		name, _, ok := parseName(sent)
		if ok && strings.ContainsAny(name, "\r\n,") {
			t.Errorf("name %q", name)
		}
		answer := reply(b, unsticky, name)
		body, ended := strings.CutSuffix(answer, "\n")
		if !ended || strings.ContainsAny(body, "\r\n") || answer != up && answer != draining && !strings.HasPrefix(answer, down) {
			t.Errorf("answer %q", answer)
		}
	})
}
