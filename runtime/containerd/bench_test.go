package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest"
)

func BenchmarkExec(b *testing.B) {
	private := containerdtest.Start(b)
	id := private.Run(b, containerdtest.RunOptions{Cmd: deafSleep})
	e := connect(b, private, containerd.Config{})
	report := enginetest.ReportCPU(b, private.Endpoint)
	n := 0
	for b.Loop() {
		n++
		if _, code, _, err := e.Exec(b.Context(), id, []string{"true"}, time.Minute, 100, nil); err != nil || code != 0 {
			b.Fatal(code, err)
		}
	}
	report(n)
}

// BenchmarkSync is how long it takes until all containers have been reported, by a healthd that
// knows them. A thousand that run would need 13 GB for their shims.
func BenchmarkSync(b *testing.B) {
	for name, many := range map[string]int{"running": 200, "created": 1000} {
		b.Run(fmt.Sprint(many, "-", name), func(b *testing.B) {
			private := containerdtest.Start(b)
			makeMany(b, private, many, name == "running")
			benchmarkSync(b, connect(b, private, containerd.Config{}), many)
		})
	}
}

func makeMany(b *testing.B, private *containerdtest.Engine, many int, run bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, 4)
	for i := range many {
		slots <- struct{}{}
		wg.Go(func() {
			id := private.Create(b, containerdtest.RunOptions{Name: fmt.Sprint("c", i), Cmd: deafSleep})
			if run {
				private.StartTask(b, "", id)
			}
			<-slots
		})
	}
}

func benchmarkSync(b *testing.B, e *containerd.Engine, many int) {
	enough := errors.New("enough")
	for b.Loop() {
		n := 0
		err := (&runtime.Watcher{Name: "containerd", Source: e}).Run(b.Context(), func(_ context.Context, u runtime.Update) error {
			switch u.Kind {
			case runtime.Observed:
				n++
			case runtime.Synced:
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != many {
			b.Fatal(n, err)
		}
	}
	began := time.Now()
	if _, err := e.List(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "ms-of-it-listing")
}

// BenchmarkDeath is the way from the death of a container, by containerd's clock, to its
// inspection having been delivered, which is what comes before a restart call; then the
// restart in place.
func BenchmarkDeath(b *testing.B) {
	private := containerdtest.Start(b)
	id := private.Run(b, containerdtest.RunOptions{Cmd: deafSleep})
	e := connect(b, private, containerd.Config{})
	type timed struct {
		runtime.Update
		at time.Time
	}
	updates := make(chan timed, 100)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&runtime.Watcher{Name: "containerd", Source: e}).Run(ctx, func(ctx context.Context, u runtime.Update) error {
			now, _ := e.Clock(ctx)
			updates <- timed{u, now}
			return nil
		})
	}()
	await := func(state runtime.State) timed {
		for u := range updates {
			if u.Kind == runtime.Observed && u.Container.State == state {
				return u
			}
		}
		return timed{}
	}
	await(runtime.Running)
	var deaths, starts time.Duration
	n := time.Duration(0)
	for b.Loop() {
		n++
		if err := private.Task(b, id).Kill(private.In(b, ""), syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		u := await(runtime.Exited)
		deaths += u.at.Sub(u.Container.FinishedAt)
		began := time.Now()
		if err := e.Start(ctx, id); err != nil {
			b.Fatal(err)
		}
		starts += time.Since(began)
		await(runtime.Running)
	}
	b.ReportMetric(float64(deaths/n)/1e6, "ms-from-death")
	b.ReportMetric(float64(starts/n)/1e6, "ms-to-start")
	cancel()
	<-done
}
