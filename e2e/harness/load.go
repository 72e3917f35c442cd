package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/patience"
)

const (
	loadRate    = 200 // requests per second
	loadWorkers = 96  // requests that are under way at most
	longestLoad = 10 * time.Minute
)

// Traffic says what a load sends.
type Traffic struct {
	Method string
	Rate   int           // requests per second
	Long   time.Duration // what each hundredth request takes; the others take 20 ms
	Once   bool          // each request has a connection of its own
	Sticky bool          // clients keep cookies, each for some requests
}

// Load is a steady stream of requests, counted by what became of them.
type Load struct {
	t     *testing.T
	begun time.Time
	url   string
	Traffic
	cancel context.CancelFunc
	ended  sync.WaitGroup

	Mu       sync.Mutex
	Sent     int
	Failed   int
	Failures map[string]int
	By       map[string]int // answers by the replica's address
	since    map[string]int // answers since the last call of fresh
	Answers  map[string][]answer
	FailedAt []time.Time   // when those were sent that failed
	late     time.Duration // see stalled
}

// answer is one request that was answered.
type answer struct{ Sent, Came time.Time }

// StartLoad posts requests that take 20 ms, and each hundredth as long as is given, over
// connections that are kept. It ends with finish, with the test, and after longestLoad
// whatever happens.
func StartLoad(t *testing.T, url string, long time.Duration) *Load {
	// Not with GET, which the client would quietly send again.
	return SendLoad(t, url, Traffic{Method: http.MethodPost, Rate: loadRate, Long: long})
}

// StartLoadOfNewConnections has a connection for each request. A process that ends closes
// those that are kept, also while a request is on its way to it, which no client can tell
// from a lost one.
func StartLoadOfNewConnections(t *testing.T, url string, long time.Duration) *Load {
	return SendLoad(t, url, Traffic{Method: http.MethodPost, Rate: loadRate, Long: long, Once: true})
}

func SendLoad(t *testing.T, url string, what Traffic) *Load {
	ctx, cancel := context.WithTimeout(context.Background(), longestLoad)
	l := &Load{t: t, begun: time.Now(), url: url, Traffic: what, cancel: cancel, Failures: map[string]int{}, By: map[string]int{}, since: map[string]int{}, Answers: map[string][]answer{}}
	turns := make(chan time.Duration)
	for range loadWorkers {
		l.ended.Go(func() { l.work(turns) })
	}
	l.ended.Go(func() {
		defer close(turns)
		l.dispatch(ctx, turns)
	})
	t.Cleanup(func() { l.Finish() })
	return l
}

// work sends a request for each turn, over a connection of its own: a client that many share
// opens spare ones, which HAProxy takes for clients that are too slow.
func (l *Load) work(turns <-chan time.Duration) {
	transport := &http.Transport{
		MaxConnsPerHost: 1, DisableKeepAlives: l.Once,
		IdleConnTimeout: 5 * time.Second, // before HAProxy's own ends
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: patience.Limit, Transport: transport}
	for n := 0; ; n++ {
		d, more := <-turns
		if !more {
			return
		}
		if l.Sticky && n%10 == 0 { // of another client
			client.Jar, _ = cookiejar.New(nil)
		}
		sent := time.Now()
		replica, err := send(client, l.Method, fmt.Sprintf("%s/work?for=%v", l.url, d))
		l.count(sent, replica, err)
	}
}

// dispatch sends the turns at the load's rate. It makes up for some turns that a busy
// machine delayed, and drops the others.
func (l *Load) dispatch(ctx context.Context, turns chan<- time.Duration) {
	tick := time.NewTicker(l.pause())
	defer tick.Stop()
	next := l.begun
	for n := 0; ; {
		for burst := 0; burst < 10 && time.Now().After(next); burst++ {
			d := 20 * time.Millisecond
			if n%100 == 99 {
				d = l.Long
			}
			select {
			case turns <- d:
			case <-ctx.Done():
				return
			}
			n++
			next = next.Add(l.pause())
		}
		if late := time.Now().Add(-100 * time.Millisecond); next.Before(late) {
			l.stall(late.Sub(next))
			next = late
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pause is the time from one request to the next.
func (l *Load) pause() time.Duration { return time.Second / time.Duration(l.Rate) }

func (l *Load) stall(d time.Duration) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.late += d
}

// Stalled is how long the machine has kept the load from going on so far.
func (l *Load) Stalled() time.Duration {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.late
}

func send(client *http.Client, method, url string) (replica string, err error) {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return string(body), err
}

func (l *Load) count(sent time.Time, replica string, err error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Sent++
	if err != nil {
		l.Failed++
		l.Failures[err.Error()]++
		l.FailedAt = append(l.FailedAt, sent)
		return
	}
	l.Answers[replica] = append(l.Answers[replica], answer{sent, time.Now()})
	l.By[replica]++
	l.since[replica]++
}

// Refused returns nil when so many requests have failed.
func (l *Load) Refused(n int) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return AtLeast(n, l.Failed)
}

// Cut is how many requests failed without an answer.
func (l *Load) Cut() int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	n := l.Failed
	for text, times := range l.Failures {
		if strings.HasPrefix(text, "status ") {
			n -= times
		}
	}
	return n
}

// Slower is how many answers took longer.
func (l *Load) Slower(than time.Duration) (n int) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, of := range l.Answers {
		for _, a := range of {
			if a.Came.Sub(a.Sent) > than { // waits: a figure
				n++
			}
		}
	}
	return n
}

// ResetReplicas forgets which replicas answered, for reached.
func (l *Load) ResetReplicas() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.since = map[string]int{}
}

// Reached returns nil when each of the replicas has answered some requests.
func (l *Load) Reached(replicas ...string) error {
	enough := min(20, l.Rate/10)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, address := range replicas {
		if l.since[address] < enough {
			return fmt.Errorf("%s has answered %d requests; failures: %v", address, l.since[address], l.Failures)
		}
	}
	return nil
}

// FirstSince is how long after a moment the first request came that a replica answered.
func (l *Load) FirstSince(address string, at time.Time) time.Duration {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, a := range l.Answers[address] { // in the order of their ends
		if a.Sent.After(at) {
			return a.Sent.Sub(at)
		}
	}
	return 0
}

// Until lets the load go on to a moment.
func (l *Load) Until(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// Finish ends the load and waits for the answers under way. It may be called again.
func (l *Load) Finish() {
	l.cancel()
	l.ended.Wait()
}

// NoFailures finishes the load, and fails the test when a request has failed.
func (l *Load) NoFailures() {
	l.t.Helper()
	l.NoFailuresSince(l.begun)
}

// NoFailuresSince ignores failed requests that were sent before that.
func (l *Load) NoFailuresSince(at time.Time) {
	l.t.Helper()
	took := time.Since(l.begun).Seconds()
	l.Finish()
	l.t.Logf("%d requests in %.1f s (stalled for %v), %d failed, by replica %v", l.Sent, took, l.Stalled(), l.Failed, l.By)
	if l.answeredSince(at) == 0 {
		l.t.Errorf("no request was answered that was sent after %v", at)
	}
	if n := len(slices.DeleteFunc(l.FailedAt, at.After)); n > 0 {
		l.t.Errorf("%d of %d requests failed, %d after %v: %v", l.Failed, l.Sent, n, at, l.Failures)
	}
}

// answeredSince is how many requests were answered that were sent after a moment.
func (l *Load) answeredSince(at time.Time) (n int) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, of := range l.Answers {
		for _, a := range of {
			if a.Sent.After(at) {
				n++
			}
		}
	}
	return n
}
