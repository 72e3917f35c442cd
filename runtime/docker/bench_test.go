package docker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/docker/dockertest"
)

func BenchmarkExec(b *testing.B) {
	private := dockertest.Start(b)
	id := private.Run(b, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}})
	e, err := newEngine(private)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, code, _, err := e.Exec(b.Context(), id, []string{"true"}, time.Minute, 100); err != nil || code != 0 {
			b.Fatal(code, err)
		}
	}
}

// BenchmarkSync is how long it takes until 1,000 containers have been reported.
// They are not started, which makes no difference to lists and inspections.
func BenchmarkSync(b *testing.B) {
	private := dockertest.Start(b)
	for i := range 1000 {
		private.Create(b, dockertest.RunOptions{Name: fmt.Sprint("c", i), Network: "none"})
	}
	e, err := newEngine(private)
	if err != nil {
		b.Fatal(err)
	}
	enough := errors.New("enough")
	for b.Loop() {
		n := 0
		err := (&runtime.Watcher{Name: "docker", Source: e}).Run(b.Context(), func(_ context.Context, u runtime.Update) error {
			if u.Kind == runtime.Synced {
				return enough
			}
			n++
			return nil
		})
		if !errors.Is(err, enough) || n != 1000 {
			b.Fatal(n, err)
		}
	}
}
