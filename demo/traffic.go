package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	rate    = 20 // requests a second
	maxOpen = 2 * rate
)

// traffic is a steady load on HAProxy: one GET after the other, each over a new connection.
type traffic struct {
	url    string
	client http.Client

	mu             sync.Mutex
	sent, answered int
	moved          int            // answered by another container than the first one that was asked
	by             map[string]int // who answered
	slowest        time.Duration
	failure        string // the first one
}

func newTraffic(address string) *traffic {
	const patience = 5 * time.Second // HAProxy is done with a request long before
	return &traffic{
		url: "http://" + address + "/", by: map[string]int{},
		client: http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
}

// run sends requests from when ready returns true until ctx ends, and returns after the
// last answer: the end of the demo makes no request fail.
func (t *traffic) run(ctx context.Context, ready func() bool) {
	var open sync.WaitGroup
	defer open.Wait()
	room := make(chan struct{}, maxOpen)
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for begun := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if begun = begun || ready(); !begun {
			continue
		}
		select {
		case room <- struct{}{}:
			open.Go(func() {
				t.send()
				<-room
			})
		default: // that many are waiting for their answers already
		}
	}
}

// answer is which server answered a request, and whether HAProxy had tried others before.
type answer struct {
	by    string
	moved bool
}

// send sends one request and counts its outcome.
func (t *traffic) send() {
	began := time.Now()
	a, err := t.get()
	took := time.Since(began).Round(time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	t.slowest = max(t.slowest, took)
	switch {
	case err == nil:
		t.answered++
		t.by[a.by]++
		if a.moved {
			t.moved++
		}
	case t.failure == "":
		t.failure = fmt.Sprintf("at %s, after %v: %v", began.Format(clock), took, err)
	}
}

func (t *traffic) get() (answer, error) {
	response, err := t.client.Get(t.url)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	_, by, ok := strings.Cut(string(body), "Answered-By: ")
	if response.StatusCode != http.StatusOK || !ok {
		return answer{}, fmt.Errorf("HAProxy answered with status %d", response.StatusCode)
	}
	by, _, _ = strings.Cut(by, "\r\n")
	return answer{by, response.Header.Get("Retries") != "0"}, nil
}

// summary describes the requests so far in two lines.
func (t *traffic) summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent == 0 {
		return "No request yet: not all replicas are up.\n"
	}
	var by []string
	for name, n := range t.by {
		by = append(by, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(by)
	return fmt.Sprintf("%d requests through HAProxy: %d failed, %d retried on another container, the slowest took %v.\nAnswers by %s.\n",
		t.sent, t.sent-t.answered, t.moved, t.slowest, strings.Join(by, ", "))
}

// check returns an error when a request failed. Requests that had gone to the hung container
// count, too: HAProxy retries them at another one.
func (t *traffic) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch failed := t.sent - t.answered; {
	case t.sent == 0:
		return fmt.Errorf("the demo sent no request: HAProxy did not show %s as up", strings.Join(replicas, ", "))
	case failed > 0:
		return fmt.Errorf("%d of %d requests through HAProxy failed; the first: %s", failed, t.sent, t.failure)
	}
	return nil
}
