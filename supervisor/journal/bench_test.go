package journal

import (
	"fmt"
	"testing"
	"time"

	"healthd/supervisor/core"
)

func BenchmarkRecord(b *testing.B) {
	ev := core.Event{Time: time.Unix(1, 0), Container: "web-1", Reason: core.EventReady, Message: "it is ready"}
	b.Run("memory", func(b *testing.B) {
		j := New()
		b.ReportAllocs()
		for b.Loop() {
			j.keep(ev)
		}
	})
	b.Run("folded", func(b *testing.B) {
		j := New()
		b.ReportAllocs()
		for b.Loop() {
			j.Record(ev)
		}
	})
	b.Run("disk", func(b *testing.B) {
		j := open(b, b.TempDir())
		run(b, j)
		b.ReportAllocs()
		for b.Loop() {
			j.keep(ev)
		}
	})
}

// Until all of them are durable.
func BenchmarkRemember(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j := open(b, b.TempDir())
			run(b, j)
			b.ReportAllocs()
			for b.Loop() {
				var done <-chan struct{}
				for i := range n {
					done = j.Remember(remember(fmt.Sprint("container-", i), "web"))
				}
				<-done
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	j := open(b, dir)
	for n := range Size {
		j.keep(event(n))
	}
	for n := range 1000 {
		j.Remember(remember(fmt.Sprint(n), "web"))
	}
	if err := j.transact(j.takePending()); err != nil {
		b.Fatal(err)
	}
	j.Close()
	b.ReportAllocs()
	for b.Loop() {
		j := open(b, dir)
		if len(j.Memories()) != 1000 || j.Last() != Size {
			b.Fatal("something is missing")
		}
		j.Close()
	}
}

// BenchmarkTakePending is how long the supervisor may have to wait for the journal, when
// 10,000 containers have changed at once.
func BenchmarkTakePending(b *testing.B) {
	const containers = 10_000
	j := open(b, b.TempDir())
	for b.Loop() {
		b.StopTimer()
		for n := range containers {
			j.keep(event(n))
			j.Remember(remember(fmt.Sprint(n), "web"))
		}
		b.StartTimer()
		if got := len(j.takePending().memories); got != containers {
			b.Fatal(got)
		}
	}
}
