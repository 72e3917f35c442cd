package prober

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkPlaces is one turn of a command: to wait, to have a place, and to give it to the next one.
func BenchmarkPlaces(b *testing.B) {
	for _, waiting := range []int{100, 10_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			p, turns := newPlaces(8), make(chan struct{})
			for i := range waiting + p.total {
				all.Go(func() { takeTurns(ctx, p, fmt.Sprint("c", i), turns) })
			}
			for p.known() < waiting+p.total {
				runtime.Gosched()
			}
			measure(b, func() { <-turns })
		})
	}
}

// takeTurns asks for a place again and again.
func takeTurns(ctx context.Context, p *places, container string, turns chan<- struct{}) {
	for {
		l, err := p.acquire(ctx, container, time.Hour)
		if err != nil {
			return
		}
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
		l.release()
	}
}

// known is how many containers have asked.
func (p *places) known() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.users)
}
