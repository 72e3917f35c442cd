package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// starting is a daemon that has just been started: it answers, and knows no container yet.
type starting struct {
	t          *testing.T
	supervisor *supervisor.Supervisor
	handler    http.Handler
	begun      time.Time
}

// startWith starts a daemon of these runtimes in a synctest bubble. All containers belong
// to the service shop/web, and are ready when they run.
func startWith(t *testing.T, runtimes ...string) *starting {
	restarters := map[string]supervisor.Restarter{}
	for _, name := range runtimes {
		restarters[name] = nil
	}
	j := journal.New()
	s := supervisor.New(supervisor.Config{
		Resolve: func(runtime.Traits) (*core.Spec, error) {
			return &core.Spec{Name: "web", Publish: core.Publish{Service: "shop/web"}}, nil
		},
		Runtimes: restarters, Journal: j,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	a := New(Config{Board: s.Board(), History: j, Controller: s})
	return &starting{t, s, a.ReadOnly(), time.Now()}
}

func (s *starting) deliver(u runtime.Update) {
	s.t.Helper()
	if err := s.supervisor.Deliver(s.t.Context(), u); err != nil {
		s.t.Error(err)
	}
}

// lists has the runtime report these containers, all of which run.
func (s *starting) lists(name string, containers ...string) {
	for _, c := range containers {
		s.deliver(runtime.Update{Kind: runtime.Observed, Runtime: name, ID: id(c), Container: &runtime.Container{
			Runtime: name, ID: id(c), Name: c, State: runtime.Running, StartedAt: s.begun, RestartPolicy: "no",
		}})
	}
}

func id(name string) string { return (fmt.Sprintf("%x", name) + strings.Repeat("0", 64))[:64] }

func (s *starting) syncs(name string) {
	s.deliver(runtime.Update{Kind: runtime.Synced, Runtime: name, Reason: runtime.RelistStart})
}

// answer is what a request got, and how long after the start.
type answer struct {
	status int
	body   string
	after  time.Duration
}

func (a answer) String() string {
	return fmt.Sprintf("%d %q after %v", a.status, a.body, a.after)
}

// ask sends a request; the answer comes when there is one.
func (s *starting) ask(ctx context.Context, method, path string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
		got <- answer{w.Code, w.Body.String(), time.Since(s.begun)}
	}()
	return got
}

// want checks an answer and that it comes at a time after the start, or a look later.
func (s *starting) want(got <-chan answer, status int, body string, after time.Duration) {
	s.t.Helper()
	const look = 20 * time.Millisecond
	if a := <-got; a.status != status || a.body != body || a.after < after || a.after > after+look {
		s.t.Errorf("got %v, want %d %q after %v", a, status, body, after)
	}
}

// sleepUntil sleeps until so long after the start.
func (s *starting) sleepUntil(after time.Duration) {
	time.Sleep(after - time.Since(s.begun))
}

// While healthd does not know all containers, a check of one that it does not know waits:
// the container may well be ready.
func TestCheckWaitsForTheContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, "docker")
		var all []<-chan answer
		for _, name := range []string{"web-1", "shop/web/web-1", id("web-1")[:12]} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
				all = append(all, s.ask(t.Context(), method, "/v1/ready/"+name))
			}
		}
		other := s.ask(t.Context(), http.MethodGet, "/v1/ready/other/web-1")
		gone := s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9")
		s.sleepUntil(time.Second)
		s.lists("docker", "web-2")
		s.sleepUntil(2 * time.Second)
		s.lists("docker", "web-1")
		for _, got := range all {
			s.want(got, 200, textReady, 2*time.Second)
		}
		s.want(other, 503, "not ready: OtherService\n", 2*time.Second)
		s.sleepUntil(3 * time.Second)
		s.syncs("docker")
		s.want(gone, 503, "not ready: UnknownContainer\n", 3*time.Second)
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9"), 503, "not ready: UnknownContainer\n", 3*time.Second)
	})
}

// An engine that stays away holds no check up for longer than 5 s.
func TestCheckWaitsForAtMostFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, "docker", "away")
		s.lists("docker", "web-1")
		s.syncs("docker")
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-1"), 200, textReady, 0)
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9"), 503, "not ready: UnknownContainer\n", 5*time.Second)
	})
}

func TestServiceCheckWaitsForItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, "docker", "away")
		const path = "/v1/services/shop%2Fweb/ready"
		s.want(s.ask(t.Context(), http.MethodGet, path+"?min=0"), 200, textReady, 0)
		s.want(s.ask(t.Context(), http.MethodGet, path+"?min=x"), 400, "{\"error\":\"min must be a number of endpoints, it is \\\"x\\\"\"}\n", 0)
		one, two, three := s.ask(t.Context(), http.MethodHead, path), s.ask(t.Context(), http.MethodGet, path+"?min=2"), s.ask(t.Context(), http.MethodGet, path+"?min=3")
		s.sleepUntil(time.Second)
		s.lists("docker", "web-1")
		s.want(one, 200, textReady, time.Second)
		s.sleepUntil(2 * time.Second)
		s.lists("docker", "web-2")
		s.syncs("docker")
		s.want(two, 200, textReady, 2*time.Second)
		s.want(three, 503, "not ready: 2 of 2 endpoints ready, 3 needed\n", 5*time.Second)
		three = s.ask(t.Context(), http.MethodGet, path+"?min=3")
		s.sleepUntil(6 * time.Second)
		s.syncs("away")
		s.want(three, 503, "not ready: 2 of 2 endpoints ready, 3 needed\n", 6*time.Second)
	})
}

// A flood of unknown names costs no more memory than that of the checks that may wait.
func TestFewChecksWait(t *testing.T) {
	const most = 1024
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, "docker")
		clients, leave := context.WithCancel(t.Context())
		var waiting []<-chan answer
		for n := range most {
			path := fmt.Sprint("/v1/ready/web-", n)
			if n%2 == 0 {
				path = fmt.Sprint("/v1/services/web-", n, "/ready")
			}
			waiting = append(waiting, s.ask(clients, http.MethodGet, path))
		}
		synctest.Wait()
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9"), 503, "not ready: UnknownContainer\n", 0)
		s.sleepUntil(time.Second)
		leave()
		for _, got := range waiting {
			if a := <-got; a.after != time.Second || !strings.HasPrefix(a.body, textNotReady) {
				t.Fatalf("a client that had gone got %v", a)
			}
		}
		again := s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9")
		s.sleepUntil(2 * time.Second)
		s.lists("docker", "web-9")
		s.want(again, 200, textReady, 2*time.Second)
	})
}

// A check that waits does not delay the end of the daemon.
func TestServeEndsChecksThatWait(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, a.ReadOnly(), 10, nil) }()
	got := make(chan int, 1)
	go func() {
		defer close(got)
		if answer, err := http.Get("http://" + ln.Addr().String() + "/v1/ready/web-1"); err == nil {
			answer.Body.Close()
			got <- answer.StatusCode
		}
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(a.waiting) == 0 {
		<-tick.C
	}
	cancel()
	if err := patience.Receive(t, "it ends", ended); err != nil {
		t.Error(err)
	}
	if status := <-got; status != http.StatusServiceUnavailable {
		t.Errorf("the check got %d", status)
	}
}
