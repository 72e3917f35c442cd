package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"healthd/bench/engine"
)

// unit is one container of the soak, which may be made anew. Whoever took it from soak.idle has it alone.
type unit struct {
	number   int
	name, id string
	settled  time.Time // since when nothing is done to it, and it is ready
}

// soakAct is something that happens to one container. When it returns, healthd has to make the container ready.
type soakAct struct {
	name   string
	weight int
	do     func(*soak, *unit) error
}

var soakActs = []soakAct{
	{"stops and starts", 4, (*soak).stopAndStart},
	{"re-creations", 2, func(s *soak, u *unit) error { return s.recreate(u, s.labelsOf(u), u.firstName()) }},
	{"re-creations under another name", 2, func(s *soak, u *unit) error { return s.recreate(u, s.labelsOf(u), s.newName(u)) }},
	{"replacements by a container without Compose", 1, (*soak).replace},
	{"crashes", 4, (*soak).crash},
	{"failing liveness probes", 4, (*soak).hang},
	{"failing startup probes", 1, (*soak).failAtStart},
	{"failing readiness probes", 4, (*soak).becomeUnready},
}

// act does something to one container after the other until ctx ends, and waits for the end of all that.
func (s *soak) act(ctx context.Context) {
	var doing sync.WaitGroup
	defer doing.Wait()
	pause := func() time.Duration { return time.Duration(float64(time.Second)/s.plan.rate) / s.pace() }
	_ = every(ctx, pause, func() error {
		select {
		case u := <-s.idle:
			doing.Go(func() { s.do(u, anyAct()) })
		default: // more is under way than there are containers
		}
		return nil
	})
}

// anyAct returns an act by chance.
func anyAct() soakAct {
	all := 0
	for _, a := range soakActs {
		all += a.weight
	}
	n := rand.IntN(all)
	for _, a := range soakActs {
		if n -= a.weight; n < 0 {
			return a
		}
	}
	panic("the weights have another sum")
}

// do has an act happen, looks how healthd deals with it, and gives the container back.
func (s *soak) do(u *unit, a soakAct) {
	err := s.checkSettled(u)
	if err == nil {
		err = a.do(s, u)
	}
	if err == nil {
		err = s.settle(u)
	}
	if err != nil {
		s.abort(fmt.Errorf("%s of %s: %w", a.name, u.name, err))
		return
	}
	s.counted.add(a.name)
	s.idle <- u
}

// settle waits until healthd says that a container is ready.
func (s *soak) settle(u *unit) error {
	ready, err := s.await(u, true)
	if err == nil && !ready {
		s.findings.add(notReadyAgain, 1, "%s", s.tellOf(u))
	}
	u.settled = time.Now()
	return err
}

// await waits until healthd says of a container whether it is ready, and returns false when it does not say so in time.
func (s *soak) await(u *unit, ready bool) (said bool, err error) {
	for deadline := time.Now().Add(s.plan.patience()); ; {
		if err := s.sleep(s.plan.period / 2); err != nil {
			return false, err
		}
		if is := s.get(s.control, "/v1/ready/"+u.name, nil) == nil; is == ready {
			return true, nil
		}
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}

// tellOf returns a container's name, and what healthd says of it.
func (s *soak) tellOf(u *unit) string {
	var status string
	if err := s.get(s.control, "/v1/containers/"+u.name, &status); err != nil {
		status = err.Error()
	}
	return fmt.Sprintf("%s: %s", u.name, strings.TrimSpace(status))
}

// checkSettled counts the probes that should have come while nothing was done to a container.
func (s *soak) checkSettled(u *unit) error {
	period := s.plan.period
	if h := handlerOf(u.number); h == liveChanges || h == readyChanges {
		period *= 2 // a reload may have made it longer, and a changed probe has another phase
	}
	var missed int
	err := s.get(s.targets, fmt.Sprintf("/missed?number=%d&since=%d&period=%s", u.number, u.settled.UnixNano(), period), &missed)
	if missed > 0 {
		s.findings.add(missedProbe, missed, "%d of %s, since %s", missed, u.name, u.settled.Format(time.TimeOnly))
	}
	return err
}

// createAll creates and starts the containers, spread over a period, as their probes are then.
func (s *soak) createAll() error {
	pause := s.plan.period / time.Duration(s.plan.containers)
	for n := range s.plan.containers {
		u := &unit{number: n}
		u.name = u.firstName()
		if err := errors.Join(s.create(u, s.labelsOf(u)), s.sleep(pause)); err != nil {
			return err
		}
		s.units = append(s.units, u)
	}
	for _, i := range rand.Perm(len(s.units)) {
		s.idle <- s.units[i]
	}
	return nil
}

func (u *unit) firstName() string { return fmt.Sprintf("bench-%d", u.number) }

// newName returns a name that was never used.
func (s *soak) newName(u *unit) string {
	return fmt.Sprintf("bench-%d-%x", u.number, time.Now().UnixNano())
}

func (s *soak) labelsOf(u *unit) map[string]string {
	return engine.Config{Own: s.plan.containers, Groups: soakServices}.Labels(u.number)
}

// call asks the engine, once it is there.
func (s *soak) call(method, path string, in, out any) error {
	s.reachable.RLock()
	defer s.reachable.RUnlock()
	return s.ask(s.engine, method, path, in, out)
}

func (s *soak) start(u *unit) error {
	return s.call(http.MethodPost, "/containers/"+u.id+"/start", nil, nil)
}
func (s *soak) stop(u *unit) error {
	return s.call(http.MethodPost, "/containers/"+u.id+"/stop", nil, nil)
}

func (s *soak) create(u *unit, labels map[string]string) error {
	var made struct{ ID string }
	err := s.call(http.MethodPost, "/containers/create?name="+u.name, map[string]any{"Labels": labels}, &made)
	if err != nil {
		return err
	}
	u.id = made.ID
	return s.start(u)
}

func (s *soak) setSick(u *unit, probe string, sick bool) error {
	path := "/well"
	if sick {
		path = "/sick"
	}
	return s.post(s.targets, fmt.Sprintf("%s?number=%d&probe=%s", path, u.number, probe))
}

// stopAndStart is what an operator does: healthd must not start the container meanwhile.
func (s *soak) stopAndStart(u *unit) error {
	return errors.Join(s.stop(u), s.sleep(s.some(4)), s.start(u))
}

// recreate is a deploy, as Compose does it or by force.
func (s *soak) recreate(u *unit, labels map[string]string, name string) error {
	var err error
	if rand.IntN(2) == 0 {
		err = errors.Join(s.stop(u), s.call(http.MethodDelete, "/containers/"+u.id, nil, nil))
	} else {
		err = s.call(http.MethodDelete, "/containers/"+u.id+"?force=1", nil, nil)
	}
	u.name = name
	return errors.Join(err, s.sleep(s.some(1)), s.create(u, labels))
}

// replace makes the container one of docker run: with a name that was never used, it is nobody's successor.
func (s *soak) replace(u *unit) error {
	labels := s.labelsOf(u)
	for name := range labels {
		if strings.HasPrefix(name, "com.docker.compose.") {
			delete(labels, name)
		}
	}
	return s.recreate(u, labels, s.newName(u))
}

// crash ends the container's process: healthd has to start it again.
func (s *soak) crash(u *unit) error {
	came := s.ledger.expect(u.id, engine.Start)
	began := time.Now()
	if err := s.post(s.engine, "/bench/crash/"+u.id); err != nil {
		return err
	}
	return s.awaitActs(u, afterCrash, began, came, 1)
}

// What is counted and timed besides soakActs.
const (
	restarts   = "restarts by healthd"
	afterCrash = "longest from a crash to the start"
	afterHang  = "longest from when a liveness probe would fail to the stop"
)

// hang has the liveness probe fail until healthd stops the container, which then is well. Only HTTP probes can be made to
// fail for one container: others crash.
func (s *soak) hang(u *unit) error {
	switch handlerOf(u.number) {
	case byExec, byGRPC, byKeptGRPC, byTCP:
		return s.crash(u)
	}
	return s.failUntilStopped(u, "/live", afterHang, engine.Stop, engine.Start)
}

// failAtStart has the container crash, and fail its next startup probe until healthd stops it.
func (s *soak) failAtStart(u *unit) error {
	return s.failUntilStopped(u, "/startup", "", engine.Start, engine.Stop, engine.Start)
}

func (s *soak) failUntilStopped(u *unit, probe, why string, acts ...string) error {
	came := s.ledger.expect(u.id, acts...)
	began := time.Now()
	err := s.setSick(u, probe, true)
	if acts[0] == engine.Start {
		err = errors.Join(err, s.post(s.engine, "/bench/crash/"+u.id))
	}
	if err == nil {
		err = s.awaitActs(u, why, began, came, len(acts)-1)
	}
	err = errors.Join(err, s.setSick(u, probe, false))
	if err == nil && s.ledger.expects(u.id) {
		err = s.awaitActs(u, "", began, came, 1)
	}
	return err
}

// awaitActs waits for so many of the acts that are wanted of healthd. If they do not come, the container is started.
func (s *soak) awaitActs(u *unit, why string, began time.Time, came <-chan engine.Act, n int) error {
	patience := time.NewTimer(s.plan.patience())
	defer patience.Stop()
	for range n {
		select {
		case a := <-came:
			if a.Kind == engine.Start {
				s.counted.add(restarts)
			}
			s.counted.took(why, a.At.Sub(began))
			why = ""
		case <-patience.C:
			s.ledger.forget(u.id)
			s.findings.add(notRestarted, 1, "%s", s.tellOf(u))
			return s.start(u)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// becomeUnready has the readiness probe fail until healthd has withdrawn the container. That is no reason for a restart.
func (s *soak) becomeUnready(u *unit) error {
	if err := s.setSick(u, "/ready", true); err != nil {
		return err
	}
	withdrawn, err := s.await(u, false)
	if err == nil && !withdrawn {
		s.findings.add(notWithdrawn, 1, "%s", s.tellOf(u))
	}
	return errors.Join(err, s.setSick(u, "/ready", false))
}
