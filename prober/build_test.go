package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func TestProbeErrors(t *testing.T) {
	var fine fakeEngine
	for _, tt := range []struct {
		name    string
		h       Handler
		want    string
		kubelet string
	}{
		// 103: handlers are struct fields, so this is the only unknown handler.
		{"no handler", Handler{}, "no handler", "97 103"},
		{"negative port", Handler{HTTPGet: &HTTPGet{Port: -1}}, "port -1 is not between 1 and 65535", ""},
		{"no port", Handler{HTTPGet: &HTTPGet{}}, "port 0 is not between 1 and 65535", ""},
		{"large port", Handler{HTTPGet: &HTTPGet{Port: 66666}}, "port 66666 is not between 1 and 65535", ""},
		// 79: found before the first probe.
		{"negative tcp port", Handler{TCPSocket: &TCPSocket{Port: -1}}, "port -1 is not between 1 and 65535", "79"},
		{"no grpc port", Handler{GRPC: &GRPC{Port: 0}}, "port 0 is not between 1 and 65535", ""},
		{"scheme", Handler{HTTPGet: &HTTPGet{Port: 1, Scheme: "ftp"}}, `scheme is "ftp", not http or https`, ""},
		{"header name", Handler{HTTPGet: &HTTPGet{Port: 1, Headers: []Header{{"a b", "c"}}}}, `header name "a b" is invalid`, ""},
		{"header value", Handler{HTTPGet: &HTTPGet{Port: 1, Headers: []Header{{"a", "b\nc"}}}}, `value of header a is invalid`, ""},
		{"no command", Handler{Exec: &Exec{}}, "command is empty", ""},
		{"no runtime", Handler{Exec: &Exec{Command: []string{"a"}}}, `no engine for runtime "other"`, ""},
		{"no runtime for health", Handler{EngineHealth: &EngineHealth{}}, `no engine for runtime "other"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			p, err := New(engines(fine)).Probe(tt.h, Target{Runtime: "other", ID: "c1", Address: "127.0.0.1"})
			want := "cannot probe container c1: " + tt.want
			if err == nil || err.Error() != want || p != nil {
				t.Errorf("got %v, %v, want %q", p, err, want)
			}
		})
	}
}

// TestNew probes with every handler type.
func TestNew(t *testing.T) {
	covers(t, "80 106")
	e := fakeEngine{
		exec: func(context.Context, string, []string, time.Duration) execReply { return execReply{} },
		health: func(context.Context, string) (string, string, error) {
			return "healthy", "", nil
		},
	}
	web := webServer(t, func(http.ResponseWriter, *http.Request) {})
	serving := health.NewServer()
	serving.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	prober := New(Config{Engines: map[string]Engine{"fake": e}})
	for name, h := range map[string]Handler{
		"http":   {HTTPGet: &HTTPGet{Port: web}},
		"tcp":    {TCPSocket: &TCPSocket{Port: web}},
		"grpc":   {GRPC: &GRPC{Port: grpcServer(t, serving)}},
		"exec":   execs("a"),
		"engine": {EngineHealth: &EngineHealth{}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := prober.Probe(h, loopback)
			if err != nil {
				t.Fatal(err)
			}
			wantResult(t, p.Ask(t.Context(), longTimeout), Success, "")
		})
	}
	if n := prober.engines["fake"].probes.places.total; n != startsPerCPU*runtime.GOMAXPROCS(0) {
		t.Errorf("%d commands may start at once", n)
	}
}

func TestNoAddress(t *testing.T) {
	for _, h := range []Handler{
		{HTTPGet: &HTTPGet{Port: 80}},
		{TCPSocket: &TCPSocket{Port: 80}},
		{GRPC: &GRPC{Port: 80}},
	} {
		r := mustProbe(t, Config{}, h, Target{ID: "c1"}).Ask(t.Context(), longTimeout)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "container has no address")
	}
}

// askFunc is an asker.
type askFunc func(ctx context.Context, timeout time.Duration) (Result, error)

func (f askFunc) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	return f(ctx, timeout)
}

func TestAskRetries(t *testing.T) {
	bad := errors.New("bad \xff")
	for _, tt := range []struct {
		name    string
		takes   time.Duration // each attempt
		fails   int
		tries   int
		outcome Outcome
		kubelet string
	}{
		{"at first", 0, 0, 1, Success, ""},
		{"at last", 0, 2, 3, Success, ""},
		{"never", 0, 9, 3, Unknown, "102"},
		{"slow", retryWithin + 1, 9, 1, Unknown, ""},
		{"rather slow", retryWithin/2 + 1, 9, 2, Unknown, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				r := probe{askFunc(func(context.Context, time.Duration) (Result, error) {
					time.Sleep(tt.takes)
					if tries++; tries <= tt.fails {
						return Result{}, bad
					}
					return Result{Outcome: Success}, nil
				})}.Ask(t.Context(), time.Second)
				if tries != tt.tries || r.Outcome != tt.outcome || r.Latency != tt.takes {
					t.Errorf("got %+v after %d tries", r, tries)
				}
				if r.Outcome == Unknown && (r.Cause != NotAsked || r.Output != "bad \uFFFD") {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

// An Unknown result without an error is final. The kubelet makes
// a failure of it; in healthd only an answer of the container counts.
func TestAskUnknownIsNotRetried(t *testing.T) {
	covers(t, "101")
	tries := 0
	r := probe{askFunc(func(context.Context, time.Duration) (Result, error) {
		tries++
		return notAsked("previous command still running"), nil
	})}.Ask(t.Context(), time.Second)
	wantResult(t, r, Unknown, NotAsked)
	if r.Output != "previous command still running" || tries != 1 {
		t.Errorf("got %+v after %d tries", r, tries)
	}
}

func TestAskAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	tries := 0
	p := probe{askFunc(func(context.Context, time.Duration) (Result, error) {
		tries++
		cancel(errors.New("shutting down"))
		return Result{Outcome: Failure, Cause: Timeout}, nil
	})}
	for range 2 {
		r := p.Ask(ctx, time.Second)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "probe cancelled: shutting down")
	}
	if tries != 1 {
		t.Errorf("asked %d times", tries)
	}
}

func TestClean(t *testing.T) {
	for _, s := range []string{
		"", "plain", "\xff", strings.Repeat("\xff", 2*MaxOutput), strings.Repeat("a\xff", MaxOutput),
		strings.Repeat("é", MaxOutput), "a" + strings.Repeat("é", MaxOutput), strings.Repeat("\U0001F600\xff", MaxOutput),
	} {
		got := clean(s)
		if !utf8.ValidString(got) || len(got) > MaxOutput || utf8.ValidString(s) && len(got) < min(len(s), MaxOutput-utf8.UTFMax) {
			t.Errorf("%.9q of %d bytes became %.9q of %d", s, len(s), got, len(got))
		}
	}
}

// TestOutOfDescriptors probes from another process, which has no descriptors left.
func TestOutOfDescriptors(t *testing.T) {
	port := webServer(t, func(http.ResponseWriter, *http.Request) {})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), noDescriptorsRole+"="+fmt.Sprint(port))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 8 {
		t.Errorf("got %q", lines)
	}
	for _, line := range lines {
		if !strings.Contains(line, "Unknown could not ask: ") || !strings.Contains(line, "too many open files") {
			t.Error(line)
		}
	}
}

// noDescriptorsRole makes the test binary ask the port that it names, without
// descriptors.
const noDescriptorsRole = "PROBER_TEST_STARVED"

func askWithoutDescriptors(port int) int {
	// The poller needs descriptors of its own, and a name would need its file.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	defer l.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: 3}); err != nil {
		return 1
	}
	for name, h := range map[string]Handler{
		"http":     {HTTPGet: &HTTPGet{Port: port}},
		"https":    {HTTPGet: &HTTPGet{Port: port, Scheme: "https"}},
		"tcp":      {TCPSocket: &TCPSocket{Port: port}},
		"tcp zone": {TCPSocket: &TCPSocket{Port: port, Host: "::1%1"}},
		"grpc":     {GRPC: &GRPC{Port: port}},
	} {
		p, err := New(Config{}).Probe(h, Target{Address: "127.0.0.1"})
		if err != nil {
			return 1
		}
		r := p.Ask(context.Background(), longTimeout)
		_, _ = io.WriteString(os.Stdout, fmt.Sprintf("%s: %v %s: %s\n", name, r.Outcome, r.Cause, r.Output))
	}
	for name, h := range map[string]LifecycleHandler{
		"http hook":     {HTTPGet: &HTTPGet{Port: port}},
		"tcp hook":      {TCPSocket: &TCPSocket{Port: port}},
		"tcp zone hook": {TCPSocket: &TCPSocket{Port: port, Host: "::1%1"}},
	} {
		hook, err := New(Config{}).Hook(h, Target{Address: "127.0.0.1"})
		if err != nil {
			return 1
		}
		r := hook.Run(context.Background())
		if !r.NotAsked {
			return 1
		}
		_, _ = io.WriteString(os.Stdout, fmt.Sprintf("%s: Unknown could not ask: %v\n", name, r.Err))
	}
	return 0
}
