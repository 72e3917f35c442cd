package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	loadRate    = 500 // requests per second
	loadWorkers = 96  // requests that are under way at most
	leastShare  = 0.1 // of its rate, what a busy machine must still manage for a count to say anything
	longestLoad = 5 * time.Minute
)

// traffic says what a load sends.
type traffic struct {
	method string
	rate   int           // requests per second
	long   time.Duration // what each hundredth request takes; the others take 20 ms
	once   bool          // each request has a connection of its own
}

// load is a steady stream of requests, counted by what became of them.
type load struct {
	t     *testing.T
	begun time.Time
	url   string
	traffic
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	sent     int
	failed   int
	failures map[string]int
	by       map[string]int // answers by the replica's address
	since    map[string]int // answers since the last call of fresh
	answers  map[string][]answer
	failedAt []time.Time   // when those were sent that failed
	late     time.Duration // see stalled
	breath   time.Duration // the longest time since the last call of breathe that the machine did not let the test run
}

// answer is one request that was answered.
type answer struct{ sent, came time.Time }

// startLoad posts requests that take 20 ms, and each hundredth as long as is given, over
// connections that are kept. It ends with finish, with the test, and after longestLoad
// whatever happens.
func startLoad(t *testing.T, url string, long time.Duration) *load {
	// Not with GET, which the client would quietly send again.
	return sendLoad(t, url, traffic{method: http.MethodPost, rate: loadRate, long: long})
}

// startLoadOfNewConnections has a connection for each request. A process that ends closes
// those that are kept, also while a request is on its way to it, which no client can tell
// from a lost one.
func startLoadOfNewConnections(t *testing.T, url string, long time.Duration) *load {
	return sendLoad(t, url, traffic{method: http.MethodPost, rate: loadRate, long: long, once: true})
}

func sendLoad(t *testing.T, url string, what traffic) *load {
	ctx, cancel := context.WithTimeout(context.Background(), longestLoad)
	l := &load{t: t, begun: time.Now(), url: url, traffic: what, cancel: cancel, failures: map[string]int{}, by: map[string]int{}, since: map[string]int{}, answers: map[string][]answer{}}
	turns := make(chan time.Duration)
	for range loadWorkers {
		l.ended.Go(func() { l.work(turns) })
	}
	l.ended.Go(func() {
		defer close(turns)
		l.dispatch(ctx, turns)
	})
	l.ended.Go(func() { l.measureStalls(ctx) })
	t.Cleanup(func() { l.finish() })
	return l
}

// work sends a request for each turn, over a connection of its own: a client that many share
// opens spare ones, which HAProxy takes for clients that are too slow.
func (l *load) work(turns <-chan time.Duration) {
	transport := &http.Transport{
		MaxConnsPerHost: 1, DisableKeepAlives: l.once,
		IdleConnTimeout: 5 * time.Second, // before HAProxy's own ends
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: 15 * time.Second, Transport: transport}
	for d := range turns {
		sent := time.Now()
		replica, err := send(client, l.method, fmt.Sprintf("%s/work?for=%v", l.url, d))
		l.count(sent, replica, err)
	}
}

// dispatch sends the turns at the load's rate. It makes up for some turns that a busy
// machine delayed, and drops the others.
func (l *load) dispatch(ctx context.Context, turns chan<- time.Duration) {
	tick := time.NewTicker(l.pause())
	defer tick.Stop()
	next := l.begun
	for n := 0; ; {
		for burst := 0; burst < 10 && time.Now().After(next); burst++ {
			d := 20 * time.Millisecond
			if n%100 == 99 {
				d = l.long
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
func (l *load) pause() time.Duration { return time.Second / time.Duration(l.rate) }

func (l *load) stall(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late += d
}

// stalled is how long the machine has kept the load from going on so far.
func (l *load) stalled() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
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

func (l *load) count(sent time.Time, replica string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failed++
		l.failures[err.Error()]++
		l.failedAt = append(l.failedAt, sent)
		return
	}
	l.answers[replica] = append(l.answers[replica], answer{sent, time.Now()})
	l.by[replica]++
	l.since[replica]++
}

// cut is how many requests failed without an answer.
func (l *load) cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.failed
	for text, times := range l.failures {
		if strings.HasPrefix(text, "status ") {
			n -= times
		}
	}
	return n
}

// slower is how many answers took longer.
func (l *load) slower(than time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.answers {
		for _, a := range of {
			if a.came.Sub(a.sent) > than {
				n++
			}
		}
	}
	return n
}

// resetReplicas forgets which replicas answered, for reached.
func (l *load) resetReplicas() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = map[string]int{}
}

// reached returns nil when each of the replicas has answered some requests.
func (l *load) reached(replicas ...string) error {
	enough := min(20, l.rate/10)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range replicas {
		if l.since[address] < enough {
			return fmt.Errorf("%s has answered %d requests; failures: %v", address, l.since[address], l.failures)
		}
	}
	return nil
}

// firstSince is how long after a moment the first request came that a replica answered.
func (l *load) firstSince(address string, at time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers[address] { // in the order of their ends
		if a.sent.After(at) {
			return a.sent.Sub(at)
		}
	}
	return 0
}

// measureStalls measures for how long the machine does not run the test.
func (l *load) measureStalls(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		l.mu.Lock()
		l.breath = max(l.breath, now.Sub(last)-time.Millisecond)
		l.mu.Unlock()
		last = now
	}
}

// longestStall returns the longest such time since its last call.
func (l *load) longestStall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.breath
	l.breath = 0
	return d
}

// until lets the load go on to a moment.
func (l *load) until(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// finish ends the load and waits for the answers under way. It may be called again.
func (l *load) finish() {
	l.cancel()
	l.ended.Wait()
}

// noFailures finishes the load, and fails the test when a request has failed.
func (l *load) noFailures() {
	l.t.Helper()
	l.noFailuresSince(l.begun)
}

// noFailuresSince ignores failed requests that were sent before that.
func (l *load) noFailuresSince(at time.Time) {
	l.t.Helper()
	took := time.Since(l.begun).Seconds()
	l.finish()
	l.t.Logf("%d requests in %.1f s (stalled for %v), %d failed, by replica %v", l.sent, took, l.stalled(), l.failed, l.by)
	if n := len(slices.DeleteFunc(l.failedAt, at.After)); n > 0 {
		l.t.Errorf("%d of %d requests failed, %d after %v: %v", l.failed, l.sent, n, at, l.failures)
	}
	if rate := float64(l.sent) / took; rate < leastShare*float64(l.rate) {
		l.t.Errorf("the load was %.0f requests/s only", rate)
	}
}
