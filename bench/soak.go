package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"healthd/bench/engine"
)

// soakPlan is what a soak can be told.
type soakPlan struct {
	binary     string
	containers int
	period     time.Duration // of the probes
	length     time.Duration
	rate       float64 // acts per second
	slack      float64 // times what the figures may grow beyond their noise
	csv        string  // file for the samples
	profiles   string  // directory; empty: none are taken
}

func parseSoak(args []string) (soakPlan, error) {
	var p soakPlan
	flags := flag.NewFlagSet("soak", flag.ExitOnError)
	flags.StringVar(&p.binary, "binary", "bin/healthd", "healthd's binary")
	flags.IntVar(&p.containers, "containers", 1000, fmt.Sprintf("how many containers there are, at most %d", engine.MaxOwn))
	flags.DurationVar(&p.period, "period", 5*time.Second, "period of the probes")
	flags.DurationVar(&p.length, "for", 20*time.Minute, "how long it takes, without its beginning and its end")
	flags.Float64Var(&p.rate, "acts", 4, "how many containers something is done to, per second")
	flags.Float64Var(&p.slack, "slack", 1, "how many times as much as usual the figures may grow: a short run needs more. Above 1, missed probes are told and not judged")
	flags.StringVar(&p.csv, "csv", "bin/soak.csv", "file for the samples")
	flags.StringVar(&p.profiles, "profiles", "", "directory for profiles of the heap and of goroutines, of the second and the last quarter; empty: none")
	_ = flags.Parse(args)
	switch {
	case flags.NArg() > 0:
		return p, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case p.containers < soakServices || p.containers > engine.MaxOwn:
		return p, fmt.Errorf("-containers must be %d to %d", soakServices, engine.MaxOwn)
	case p.period < 100*time.Millisecond || p.rate <= 0 || p.length < 10*p.period:
		return p, errors.New("-period must be at least 100ms, -acts more than 0, -for at least ten periods")
	}
	return p, nil
}

// What the parts of a soak take. A short one has all of them, too.
func (p soakPlan) warmUp() time.Duration      { return p.length / 10 }
func (p soakPlan) stretch() time.Duration     { return (p.length - p.warmUp()) / stretches }
func (p soakPlan) reloadEvery() time.Duration { return max(p.stretch()/reloadsOnce, p.period) }
func (p soakPlan) away() time.Duration        { return 2 * p.period }
func (p soakPlan) sampleEvery() time.Duration {
	return min(max(p.length/600, 100*time.Millisecond), 2*time.Second)
}

const (
	// reloadsOnce is how many reloads there are in a stretch. The last of them is of a wrong configuration.
	reloadsOnce = 4
	// warmUpPace is how much faster all happens in the warm-up: what fills with time, and the holes in the heap, are then as
	// they stay.
	warmUpPace = 8
	// leastAway is the time between two ends of the engine at least: healthd's pauses between its attempts to reach it grow
	// when it goes away sooner.
	leastAway = 15 * time.Second
)

// aways is how often the engine goes away: once in a stretch, and less often in short ones.
func (p soakPlan) aways() int { return max(1, min(stretches, int((p.length-p.warmUp())/leastAway))) }

// pace is by how much the pauses between what happens are to be divided.
func (s *soak) pace() time.Duration {
	if time.Since(s.began) < s.plan.warmUp() {
		return warmUpPace
	}
	return 1
}

// patience is how long anything may take that healthd does about a container: twice as long as its probes need for a verdict,
// its longest back-off, an engine that is away meanwhile, and a slow machine.
func (p soakPlan) patience() time.Duration {
	return 2*(threshold+2)*p.period + p.backoffMax() + p.away() + 30*time.Second
}

func (p soakPlan) backoffMax() time.Duration { return 2 * p.period }

// soak is a host on which much happens.
type soak struct {
	*rig
	plan     soakPlan
	abort    context.CancelCauseFunc // ends rig.ctx
	units    []*unit
	idle     chan *unit // those that nothing is done to, longest first
	ledger   *ledger
	findings findings
	sampler  *sampler
	// reachable is held by whoever calls the engine, and alone by whoever makes it go away.
	reachable sync.RWMutex
	counted   counts
	before    rest      // of healthd without containers
	began     time.Time // of live
}

// runSoak plays a host for a while, prints what was found beside what may be, and fails if one is more than the other.
func runSoak(ctx context.Context, args []string) error {
	p, err := parseSoak(args)
	if err != nil {
		return err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r, err := newRig(ctx, p.containers, "-containers", "0", "-exec-time", "20ms")
	if err != nil {
		return err
	}
	s := &soak{rig: r, plan: p, abort: abort, idle: make(chan *unit, p.containers), ledger: newLedger()}
	title := fmt.Sprintf("healthd with %d containers, each with three probes every %v", p.containers, p.period)
	s.sampler = &sampler{rig: r, title: title, every: p.sampleEvery()}
	var results table
	err = s.play(&results)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what follows from it says less
	}
	err = errors.Join(err, r.close())
	fmt.Print(results.String())
	if err == nil {
		err = results.unmet()
	}
	return err
}

func (s *soak) play(t *table) error {
	if err := errors.Join(s.runDaemon(s.plan.binary, s.specs(0)), s.awaitSync()); err != nil {
		return err
	}
	var err error
	if s.before, err = s.rest(); err != nil {
		return err
	}
	return s.beside(s.readActs, func() error {
		if err := errors.Join(s.createAll(), s.awaitAllReady()); err != nil {
			return err
		}
		if err := s.live(); err != nil {
			return err
		}
		if err := s.checkAll(); err != nil {
			return err
		}
		return errors.Join(s.judge(t), s.end(t), s.showFindings(t))
	})
}

// live is the time of which samples are taken.
func (s *soak) live() error {
	out, err := os.Create(s.plan.csv)
	if err != nil {
		return err
	}
	defer out.Close()
	s.began = time.Now()
	ctx, cancel := context.WithDeadline(s.ctx, s.began.Add(s.plan.length))
	defer cancel()
	var doing sync.WaitGroup
	background := func(do func(context.Context) error) {
		doing.Go(func() {
			if err := do(ctx); err != nil {
				s.abort(err)
			}
		})
	}
	background(func(ctx context.Context) error { return s.sampler.run(ctx, out) })
	s.read(background)
	background(s.reloads)
	background(s.profileQuarters)
	fmt.Fprintf(os.Stderr, "bench: soak: %d containers for %v, of which %v are warm-up\n", len(s.units), s.plan.length, s.plan.warmUp())
	err = s.fillHistory(s.plan.warmUp() * 3 / 10)
	if err == nil {
		background(s.restartEngine)
		s.act(ctx)
	}
	doing.Wait()
	return errors.Join(err, out.Close(), s.ctx.Err())
}

// beside runs one function while it runs the other one.
func (s *soak) beside(background func(context.Context) error, do func() error) error {
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		err := background(ctx)
		if err != nil {
			s.abort(err)
		}
		ended <- err
	}()
	err := do()
	stop()
	return errors.Join(err, <-ended)
}

// fillHistory has the readiness of all containers come and go: healthd's history is full before the memory is compared.
func (s *soak) fillHistory(d time.Duration) error {
	until := time.Now().Add(d)
	for {
		for _, u := range s.units {
			if err := s.setSick(u, "/ready", true); err != nil {
				return err
			}
		}
		if err := s.sleep((threshold + 1) * s.plan.period); err != nil {
			return err
		}
		for _, u := range s.units {
			if err := s.setSick(u, "/ready", false); err != nil {
				return err
			}
		}
		if err := errors.Join(s.sleep(s.plan.period), s.awaitAllReady()); err != nil {
			return err
		}
		if time.Now().After(until) {
			break
		}
	}
	for _, u := range s.units {
		u.settled = time.Now()
	}
	return nil
}

// some returns a random duration of up to n periods.
func (s *soak) some(n int) time.Duration { return rand.N(time.Duration(n) * s.plan.period) }
