package recorder

import (
	"context"
	"errors"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Bounds of a record.
const (
	logLines     = 200
	logBytes     = 128 << 10
	commandBytes = 256 << 10
	maxEvents    = 100
	eventsOf     = 10 * time.Minute

	// leave is the time from the end of all questions to that of the record; commandLeave from the end of
	// a command to that: the engine needs time to kill it.
	leave        = 100 * time.Millisecond
	commandLeave = 300 * time.Millisecond
	// samplePause is the time in which the use of the CPU is measured.
	samplePause = 300 * time.Millisecond
)

var (
	errInTime = errors.New("no answer in time")
	errEnded  = errors.New("the container has ended")
)

// answer is what one question adds to a record.
type answer func(*supervisor.FlightRecord)

// gather asks all that a record has, at once, and returns what has answered before ctx ends.
func (r *Recorder) gather(ctx context.Context, o *supervisor.Occasion) *supervisor.FlightRecord {
	asking, cancel := untilShortlyBefore(ctx, leave)
	defer cancel()
	secrets := newMask(o.View.Container.Env, o.View.Container.EnvClipped)
	questions := r.questions(o, secrets)
	answers := make(chan answer, len(questions))
	for _, ask := range questions {
		r.asking.Go(func() { answers <- ask(asking) })
	}
	record := describe(o)
	for range questions {
		select {
		case add := <-answers:
			add(record)
		case <-ctx.Done():
			return secrets.hide(record)
		}
	}
	return secrets.hide(record)
}

// untilShortlyBefore returns a context that ends so long before ctx does.
func untilShortlyBefore(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, at.Add(-d))
	}
	return context.WithCancel(ctx)
}

// questions returns those that the occasion asks for. What has ended has neither processes nor use of
// memory, and runs no command.
func (r *Recorder) questions(o *supervisor.Occasion, m *mask) []func(context.Context) answer {
	engine, id := r.config.Engines[o.View.Container.Runtime], o.View.Container.ID
	all := []func(context.Context) answer{func(context.Context) answer { return r.events(o) }}
	if engine == nil {
		return all
	}
	all = append(all, func(ctx context.Context) answer {
		l, err := engine.Logs(ctx, id, logLines, logBytes+m.values.Longest)
		return func(to *supervisor.FlightRecord) { to.Log = recordedLog(l, err) }
	})
	if o.Cause == core.ByExit {
		return all
	}
	all = append(all,
		func(ctx context.Context) answer {
			p, err := engine.Processes(ctx, id)
			return func(to *supervisor.FlightRecord) { to.Processes = recordedProcesses(p, err) }
		},
		func(ctx context.Context) answer {
			u, cores, err := measure(ctx, engine, id)
			return func(to *supervisor.FlightRecord) { to.Usage = recordedUsage(u, cores, err) }
		})
	if len(o.View.Spec.Recorder.Command) > 0 {
		all = append(all, func(ctx context.Context) answer { return r.inquire(ctx, o, m) })
	}
	return all
}

// measure returns what a container uses, and how many CPUs it used in the last moments.
func measure(ctx context.Context, e Engine, id string) (u runtime.Usage, cores float64, err error) {
	began := time.Now()
	before, err := e.Usage(ctx, id)
	if err != nil {
		return u, 0, err
	}
	pause := time.NewTimer(samplePause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return before, 0, nil
	}
	u, err = e.Usage(ctx, id)
	if err != nil {
		return before, 0, nil
	}
	if since := time.Since(began); u.CPU > before.CPU && since > 0 {
		cores = (u.CPU - before.CPU).Seconds() / since.Seconds()
	}
	return u, cores, nil
}

// inquire runs the spec's command inside the container.
func (r *Recorder) inquire(ctx context.Context, o *supervisor.Occasion, m *mask) answer {
	c, spec := o.View.Container, o.View.Spec.Recorder
	timeout := min(spec.Timeout, o.Limit()-commandLeave)
	if at, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(at)+leave-commandLeave)
	}
	var a prober.Answer
	if a.Err = errInTime; timeout > 0 {
		target := prober.Target{Runtime: c.Runtime, ID: c.ID, Env: c.Env, EnvClipped: c.EnvClipped}
		a = r.config.Asker.Inquire(ctx, prober.Exec{Command: spec.Command}, target, timeout, commandBytes+m.values.Longest)
	}
	return func(to *supervisor.FlightRecord) { to.Command = recordedCommand(spec.Command, a) }
}

func (r *Recorder) events(o *supervisor.Occasion) answer {
	events := r.config.History.Events(o.Name, o.At.Add(-eventsOf))
	events = append([]core.Event{}, events[max(0, len(events)-maxEvents):]...)
	return func(to *supervisor.FlightRecord) { to.Events = events }
}
