package docker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
)

// BenchmarkSync is how long it takes until 1,000 containers have been reported.
// They are not started, which makes no difference to lists and inspections.
func BenchmarkSync(b *testing.B) {
	private := dockertest.Start(b)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = private.Create(b, dockertest.RunOptions{Name: fmt.Sprint("c", i), Network: "none"})
	}
	b.Cleanup(func() { private.RemoveAll(b, ids...) })
	e := connect(b, private)
	enough := errors.New("enough")
	for b.Loop() {
		n := 0
		err := (&runtime.Watcher{Name: "docker", Source: e}).Run(b.Context(), func(_ context.Context, u runtime.Update) error {
			switch u.Kind {
			case runtime.Observed:
				n++
			case runtime.Synced:
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 1000 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkDeath is the way from the death of a container, by the engine's clock, to
// its inspection having been delivered, which is what comes before a restart call.
// Most of it is the engine's: it inspects and starts nothing before it has cleaned up.
func BenchmarkDeath(b *testing.B) {
	private := dockertest.Start(b)
	id := private.Run(b, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}, Network: "none"})
	e := connect(b, private)
	source := &timedSource{Engine: e}
	updates := make(chan timedUpdate, 100)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&runtime.Watcher{Name: "docker", Source: source}).Run(ctx, func(_ context.Context, u runtime.Update) error {
			updates <- timedUpdate{u, time.Now()}
			return nil
		})
	}()
	var total, inEngine, deaths time.Duration
	for b.Loop() {
		awaitUpdate(updates, runtime.Observed, runtime.Running, func() error { return e.Start(ctx, id) })
		died := awaitUpdate(updates, runtime.Died, "", func() error { return private.Client().ContainerKill(ctx, id, "KILL") })
		total += awaitUpdate(updates, runtime.Observed, runtime.Exited, nil).at.Sub(died.Time)
		inEngine += time.Duration(source.lastInspect.Load())
		deaths++
	}
	b.ReportMetric(float64(total/deaths)/1e6, "ms-from-death")
	b.ReportMetric(float64(inEngine/deaths)/1e6, "ms-of-it-inspecting")
	cancel()
	<-done
}

// timedSource notes how long the last inspection took.
type timedSource struct {
	*docker.Engine
	lastInspect atomic.Int64
}

func (s *timedSource) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	began := time.Now()
	defer func() { s.lastInspect.Store(int64(time.Since(began))) }()
	return s.Engine.Inspect(ctx, id)
}

// timedUpdate is an update with the time at which it was delivered.
type timedUpdate struct {
	runtime.Update
	at time.Time
}

// awaitUpdate does something and returns the update that follows from it.
func awaitUpdate(updates <-chan timedUpdate, kind runtime.UpdateKind, state runtime.State, do func() error) timedUpdate {
	if do != nil {
		if err := do(); err != nil {
			return timedUpdate{}
		}
	}
	for u := range updates {
		if u.Kind == kind && (state == "" || u.Container.State == state) {
			return u
		}
	}
	return timedUpdate{}
}
