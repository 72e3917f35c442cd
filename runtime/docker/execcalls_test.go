package docker

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// execHost is an engine in virtual time that runs one command.
type execHost struct {
	starts   time.Duration // from the request until the process runs
	runs     time.Duration // unless it is killed
	heldOpen time.Duration // the output, after the end of the process
	cutAfter time.Duration // the connection with the output; 0: never

	mu    sync.Mutex
	asked time.Time // to start it
	calls []string
}

// RoundTrip implements http.RoundTripper.
func (h *execHost) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	call := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	h.calls = append(h.calls, call)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	switch call {
	case "exec":
		answer.Body = io.NopCloser(strings.NewReader(`{"Id":"e"}`))
	case "start":
		h.asked = time.Now()
		answer.Body = &execOutput{ends: time.After(h.starts + h.runs + h.heldOpen), gone: r.Context().Done(), cut: h.cut()}
	case "json":
		answer.Body = io.NopCloser(strings.NewReader(h.state()))
	default:
		return nil, fmt.Errorf("what is %s?", r.URL)
	}
	return answer, nil
}

func (h *execHost) cut() <-chan time.Time {
	if h.cutAfter == 0 {
		return nil
	}
	return time.After(h.cutAfter)
}

func (h *execHost) state() string {
	const noProcess = 1 << 30 // greater than any PID
	switch since := time.Since(h.asked); {
	case since < h.starts:
		return `{"Running":true,"ExitCode":null,"Pid":0}`
	case since < h.starts+h.runs:
		return fmt.Sprintf(`{"Running":true,"ExitCode":null,"Pid":%d}`, noProcess)
	}
	return fmt.Sprintf(`{"Running":false,"ExitCode":3,"Pid":%d}`, noProcess)
}

// execOutput is empty until it ends.
type execOutput struct {
	ends, cut <-chan time.Time
	gone      <-chan struct{}
}

// Read implements io.Reader.
func (o *execOutput) Read([]byte) (int, error) {
	select {
	case <-o.ends:
		return 0, io.EOF
	case <-o.cut:
	case <-o.gone:
	}
	return 0, io.ErrUnexpectedEOF
}

// Close implements io.Closer.
func (o *execOutput) Close() error { return nil }

// The end of the output tells of the end of a command. Only commands that run for long, or whose output does
// not tell, are asked after more often.
func TestCallsOfACommand(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name     string
		host     *execHost
		timeout  time.Duration
		inspects int           // at most
		late     time.Duration // its end, and the news of its start, at most
	}{
		{"quick", &execHost{starts: 40 * ms, runs: 5 * ms}, time.Second, 1, 0},
		{"quick, of a hook", &execHost{starts: 40 * ms, runs: 5 * ms}, noTimeout, 1, 0},
		{"quick, on a busy host", &execHost{starts: 250 * ms, runs: 5 * ms}, time.Second, 3, 0},
		{"seconds", &execHost{starts: 40 * ms, runs: 2 * time.Second}, 10 * time.Second, 20, 60 * ms},
		{"an hour", &execHost{starts: 40 * ms, runs: time.Hour}, noTimeout, 415, 60 * ms},
		{"short timeout", &execHost{starts: 42 * ms, runs: 50 * ms}, 100 * ms, 13, 10 * ms},
		{"output held open", &execHost{starts: 40 * ms, runs: 5 * ms, heldOpen: 10 * time.Second}, time.Second, 2, 100 * ms},
		{"output lost", &execHost{starts: 40 * ms, runs: 300 * ms, cutAfter: 10 * ms}, time.Second, 12, 100 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testCalls(t, tt.host, tt.timeout, tt.inspects, tt.late) })
		})
	}
}

func testCalls(t *testing.T, h *execHost, timeout time.Duration, inspects int, late time.Duration) {
	var toldAfter time.Duration
	began := time.Now()
	_, code, timedOut, err := engineThatAnswers(t, h).Exec(t.Context(), fuzzedID, []string{"check"}, timeout, 0, func() { toldAfter = time.Since(began) })
	took := time.Since(began)
	if code != 3 || timedOut || err != nil {
		t.Errorf("exit code %d, timed out %v, %v", code, timedOut, err)
	}
	if by := took - h.starts - h.runs; by < 0 || by > late+outputRestTimeout {
		t.Errorf("took %v", took)
	}
	if by := toldAfter - h.starts; toldAfter > 0 && (by < 0 || by > late) {
		t.Errorf("told %v after the start that it runs", by)
	}
	if want := []string{"exec", "json", "start"}; !slices.Equal(slices.Compact(slices.Sorted(slices.Values(h.calls))), want) || len(h.calls) > 2+inspects {
		t.Errorf("%d calls: %s", len(h.calls), h.calls)
	}
}

// A command that hangs is seen to run, so that its timeout begins, soon enough for that timeout.
func TestTimeoutBeginsSoon(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			h := &execHost{starts: 43 * time.Millisecond, runs: time.Hour}
			began, told := time.Now(), time.Duration(0)
			_, _, timedOut, _ := engineThatAnswers(t, h).Exec(t.Context(), fuzzedID, []string{"check"}, timeout, 0, func() { told = time.Since(began) })
			if late := told - h.starts; !timedOut || late < 0 || late > min(max(timeout/10, pollMin), pollMax) {
				t.Errorf("timeout %v: timed out %v, seen %v after its start", timeout, timedOut, late)
			}
		})
	}
}
