package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// latencies are durations of one kind.
type latencies struct {
	all     []time.Duration // in order once at was called
	missing []int           // numbers of the containers for which there is none
}

// at returns the quantile q, from 0 to 1; 0 when there is none.
func (l *latencies) at(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[min(int(q*float64(len(l.all))), len(l.all)-1)]
}

// pingLoop asks healthd's loop twenty times a second, which costs little, how it is, until the returned function is called,
// which returns how long the answers took.
func (r *rig) pingLoop() func() latencies {
	ctx, stop := context.WithCancel(r.ctx)
	result := make(chan latencies)
	go func() {
		var l latencies
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				began := time.Now()
				if r.get(r.control, "/livez", nil) == nil {
					l.all = append(l.all, time.Since(began))
				} else {
					l.all = append(l.all, time.Minute)
				}
			case <-ctx.Done():
				result <- l
				return
			}
		}
	}()
	return func() latencies {
		stop()
		return <-result
	}
}

// churn stops and starts the containers from first to last, w.churn each in a second, each of them once, and returns
// how long it took from each start to the container's first probe.
func (r *rig) churn(w workload, first, last int) (latencies, error) {
	started := make([]time.Time, last)
	tick := time.NewTicker(time.Second / time.Duration(w.churn))
	defer tick.Stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for n := first; n < last; n++ {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return latencies{}, r.ctx.Err()
		}
		wg.Go(func() {
			err := r.post(r.engine, fmt.Sprintf("/containers/bench-%d/stop", n))
			err = errors.Join(err, r.sleep(100*time.Millisecond))
			started[n] = time.Now()
			err = errors.Join(err, r.post(r.engine, fmt.Sprintf("/containers/bench-%d/start", n)))
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed != nil {
		return latencies{}, failed
	}
	if err := r.sleep(2 * time.Second); err != nil {
		return latencies{}, err
	}
	var l latencies
	for n := first; n < last; n++ {
		var asked []int64
		if err := r.get(r.targets, fmt.Sprintf("/asked?number=%d&since=%d", n, started[n].UnixNano()), &asked); err != nil {
			return l, err
		}
		if len(asked) == 0 {
			l.missing = append(l.missing, n)
			continue
		}
		l.all = append(l.all, time.Unix(0, asked[0]).Sub(started[n]))
	}
	return l, nil
}

// verdicts has the probes of some containers fail, and measures from the last failed probe to the event that says
// so.
func verdicts(r *rig, w workload, t *table) error {
	const name = "verdict"
	some := min(w.own()/2, 200)
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	unready, err := r.events(ctx, "NotReady")
	if err != nil {
		return err
	}
	if err := errors.Join(r.forget(), r.fail(0, some)); err != nil {
		return err
	}
	began := time.Now()
	if err := r.sleep((threshold + 1) * w.period); err != nil {
		return err
	}
	var l latencies
	for n := range some {
		at, ok := unready(fmt.Sprintf("bench-%d", n))
		var asked []int64
		if err := r.get(r.targets, fmt.Sprintf("/asked?number=%d&since=%d", n, began.UnixNano()), &asked); err != nil {
			return err
		}
		i, _ := slices.BinarySearch(asked, at.UnixNano())
		if !ok || i == 0 {
			l.missing = append(l.missing, n)
			continue
		}
		l.all = append(l.all, at.Sub(time.Unix(0, asked[i-1])))
	}
	t.exactly(name, fmt.Sprintf("of %d failing containers, without an event", some), len(l.missing), 0)
	t.within(name, "last failed probe to NotReady p99", l.at(0.99), 20*time.Millisecond)
	t.note(name, "last failed probe to NotReady p50, max", "%s, %s", short(l.at(0.5)), short(l.at(1)))
	return r.fail(0, 0)
}

// events follows the history. The returned function says when the first event of a container with that reason came.
func (r *rig) events(ctx context.Context, reason string) (func(container string) (time.Time, bool), error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/events", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	endless := *r.control
	endless.Timeout = 0
	resp, err := endless.Do(req)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	seen := map[string]time.Time{}
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data:")
			var ev struct{ Container, Reason string }
			if !ok || json.Unmarshal([]byte(data), &ev) != nil || ev.Reason != reason {
				continue
			}
			mu.Lock()
			if _, ok := seen[ev.Container]; !ok {
				seen[ev.Container] = time.Now()
			}
			mu.Unlock()
		}
	}()
	return func(container string) (time.Time, bool) {
		mu.Lock()
		defer mu.Unlock()
		at, ok := seen[container]
		return at, ok
	}, nil
}
