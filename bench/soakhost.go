package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"healthd/bench/engine"
)

// What marks samples, and is counted.
const (
	markEngine = "engine"
	markReload = "reload"

	engineRestarts = "engine restarts"
	allReloads     = "reloads"
	refused        = "of them refused"
	streamsRead    = "event streams"
	lists          = "scrapes and lists"
)

// every does something again and again, after a pause each time, until ctx ends.
func every(ctx context.Context, pause func() time.Duration, do func() error) error {
	for {
		select {
		case <-time.After(pause()):
		case <-ctx.Done():
			return nil
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// always returns the same pause.
func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// readActs enters what healthd does into the ledger.
func (s *soak) readActs(ctx context.Context) error {
	return every(ctx, always(50*time.Millisecond), func() error {
		var acts []engine.Act
		if err := s.get(s.engine, "/bench/acts", &acts); err != nil {
			return err
		}
		for _, a := range s.ledger.enter(acts) {
			s.findings.add(unasked, 1, "a %s of %s at %s", a.Kind, a.Name, a.At.Format(time.TimeOnly))
		}
		return nil
	})
}

// reloads has healthd read another configuration again and again.
func (s *soak) reloads(ctx context.Context) error {
	n := 0
	return every(ctx, func() time.Duration { return s.plan.reloadEvery() / s.pace() }, func() error {
		n++
		specs, wrong := s.specs(n), n%reloadsOnce == 0
		if wrong {
			specs += "[[spec]]\nname = \"kind-0\"\nperoid = \"5s\"\n"
		}
		if err := s.writeConfig(specs); err != nil {
			return err
		}
		asked := time.Now()
		if err := s.daemon.Process.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		s.sampler.mark(markReload)
		taken, err := s.awaitReload(asked)
		if err == nil && taken == wrong {
			s.findings.add(notReloaded, 1, "number %d: taken: %v, wrong: %v", n, taken, wrong)
		}
		if s.counted.add(allReloads); wrong {
			s.counted.add(refused)
		}
		return err
	})
}

// awaitReload waits for the outcome of a reload.
func (s *soak) awaitReload(asked time.Time) (taken bool, err error) {
	if err := s.sleep(s.plan.period / 2); err != nil { // a scrape costs more than a reload
		return false, err
	}
	err = s.eventually(s.plan.patience(), "healthd reads its configuration", func() error {
		at, err := s.metric("healthd_config_last_reload_timestamp_seconds")
		if err == nil && at < float64(asked.UnixMilli())/1000 {
			err = errors.Join(errors.New("it has not yet"), s.sleep(s.plan.period/2))
		}
		return err
	})
	if err != nil {
		return false, err
	}
	successful, err := s.metric("healthd_config_last_reload_successful")
	return successful == 1, err
}

// metric returns the value of the metric with that name and labels.
func (s *soak) metric(name string) (float64, error) {
	text, err := s.scrape()
	if err != nil {
		return 0, err
	}
	value, ok := metricIn(text, name)
	if !ok {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return value, nil
}

func (s *soak) scrape() (text string, err error) { return text, s.get(s.control, "/metrics", &text) }

// metricIn finds the value of a metric, with its labels, in the text of a scrape.
func metricIn(text, name string) (float64, bool) {
	_, rest, ok := strings.Cut("\n"+text, "\n"+name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	return value, ok && err == nil
}

const runtimeUp = `healthd_runtime_up{runtime="docker"}`

// crashedAway is how many containers crash while the engine does not answer.
const crashedAway = 3

// restartEngine has the engine end all its connections and not answer for a while, in the middle of each stretch. Its
// containers run on, but for a few that crash meanwhile.
func (s *soak) restartEngine(ctx context.Context) error {
	step := (s.plan.length - s.plan.warmUp()) / time.Duration(s.plan.aways())
	next := s.began.Add(s.plan.warmUp() - step/2)
	pause := func() time.Duration {
		next = next.Add(step)
		return time.Until(next)
	}
	return every(ctx, pause, func() error {
		crashed, err := s.goAway()
		if err != nil {
			return err
		}
		s.counted.add(engineRestarts)
		for _, c := range crashed {
			if err := errors.Join(s.awaitActs(c.unit, "", c.at, c.came, 1), s.settle(c.unit)); err != nil {
				return err
			}
			s.counted.add("crashes meanwhile")
			s.idle <- c.unit
		}
		return nil
	})
}

// crashedUnit is one that healthd has to start.
type crashedUnit struct {
	*unit
	at   time.Time
	came <-chan engine.Act
}

// goAway has the engine go away and come back, and returns when healthd has found it again.
func (s *soak) goAway() (crashed []crashedUnit, err error) {
	s.reachable.Lock()
	defer s.reachable.Unlock()
	if err := s.post(s.engine, "/bench/away?for="+s.plan.away().String()); err != nil {
		return nil, err
	}
	s.sampler.mark(markEngine)
	for range crashedAway {
		select {
		case u := <-s.idle:
			c := crashedUnit{u, time.Now(), s.ledger.expect(u.id, engine.Start)}
			if err := errors.Join(s.checkSettled(u), s.post(s.engine, "/bench/crash/"+u.id)); err != nil {
				return crashed, err
			}
			crashed = append(crashed, c)
		default: // something is done to all of them
		}
	}
	if err := s.sleep(s.plan.away()); err != nil {
		return crashed, err
	}
	return crashed, s.eventually(s.plan.patience(), "healthd reaches the engine", func() error {
		if up, err := s.metric(runtimeUp); up == 1 || err != nil {
			return err
		}
		return errors.Join(errors.New("it does not yet"), s.sleep(s.plan.period/2))
	})
}

// read has others read what healthd tells: event streams that end and begin anew, one of which is not read, scrapes, and the
// list of all containers.
func (s *soak) read(background func(func(context.Context) error)) {
	const streams = 8
	for n := range streams {
		background(func(ctx context.Context) error {
			return every(ctx, func() time.Duration { return s.some(1) / s.pace() }, func() error { s.readEvents(ctx, n == 0); return nil })
		})
	}
	for path, periods := range map[string]int{"/metrics": 3, "/v1/containers": 4, "/v1/services": 2, "/v1/events?n=100": 2} {
		background(func(ctx context.Context) error {
			return every(ctx, func() time.Duration { return time.Duration(periods) * s.plan.period / s.pace() }, func() error {
				if err := s.get(s.control, path, nil); err != nil && ctx.Err() == nil {
					s.findings.add(notAnswered, 1, "%s: %v", path, err)
				}
				s.counted.add(lists)
				return nil
			})
		})
	}
}

// readEvents reads the event stream for a few periods. A stuck reader does not read what it has asked for.
func (s *soak) readEvents(ctx context.Context, stuck bool) {
	reading, cancel := context.WithTimeout(ctx, s.plan.period+s.some(5))
	defer cancel()
	req, err := http.NewRequestWithContext(reading, http.MethodGet, "http://localhost/v1/events?since=1m", nil)
	if err != nil {
		s.abort(err)
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	endless := *s.control
	endless.Timeout = 0
	resp, err := endless.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	if err != nil {
		if reading.Err() == nil {
			s.findings.add(notAnswered, 1, "an event stream: %v", err)
		}
		return
	}
	defer resp.Body.Close()
	s.counted.add(streamsRead)
	if stuck {
		<-reading.Done()
		return
	}
	events := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			events++
		}
	}
	if reading.Err() == nil {
		s.findings.add(notAnswered, 1, "an event stream ended after %d events", events)
	}
}

// profileQuarters takes profiles of the second and the last quarter, which tell what a leak is of.
func (s *soak) profileQuarters(ctx context.Context) error {
	if s.plan.profiles == "" {
		return nil
	}
	began, middle := time.Now(), (s.plan.warmUp()+s.plan.length)/2
	for _, quarter := range []struct {
		name string
		end  time.Duration
	}{{"second", middle}, {"last", s.plan.length}} {
		select {
		case <-time.After(time.Until(began.Add(quarter.end - 2*s.plan.sampleEvery()))):
		case <-ctx.Done():
			return nil
		}
		for _, kind := range []string{"heap", "goroutine"} {
			var text string
			if err := s.get(s.control, "/debug/pprof/"+kind, &text); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(s.plan.profiles, "soak-"+quarter.name+"."+kind+".pprof"), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
