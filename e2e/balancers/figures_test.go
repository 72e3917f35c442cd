package balancers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// lost is how many requests there were, how many of them failed, and how many waited: for a resolver, or for an address that
// nobody has until the container's next run has it.
type lost struct{ sentGets, gets, sentPosts, posts, late int }

// tooLate is how long a late answer takes. None is meant to take more than 200 ms.
const tooLate = time.Second

func (n lost) String() string {
	text := fmt.Sprintf("%d/%d GET, %d/%d POST", n.gets, n.sentGets, n.posts, n.sentPosts)
	if n.late > 0 {
		text += fmt.Sprintf(", %d late", n.late)
	}
	return text
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// figures are what was measured of a way.
type figures struct {
	way                                    *way
	out, in                                []time.Duration // from the verdict to the last request, or the first
	unready, restarts, dies, back, reloads lost
}

// figureTable prints the figures of all ways when they are there.
type figureTable struct {
	mu   sync.Mutex
	rows []figures
}

func (f *figureTable) add(row figures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, row)
}

// print writes Markdown.
func (f *figureTable) print() {
	if !*balancerFigures {
		return
	}
	fmt.Printf("\n| way | not ready → last request, p50 / max | ready → first request, p50 / max | failures and returns | restarts | healthd killed for %v | restart just after | reloads |\n|---|---|---|---|---|---|---|---|\n", longLab.away)
	for _, row := range f.rows {
		reloads := row.reloads.String()
		if row.way.reload == nil {
			reloads = "–"
		}
		fmt.Println("| " + strings.Join([]string{row.way.name, spread(row.out), spread(row.in), row.unready.String(), row.restarts.String(), row.dies.String(), row.back.String(), reloads}, " | ") + " |")
	}
}

// spread writes the median and the greatest.
func spread(all []time.Duration) string {
	return fmt.Sprintf("%d / %d ms", median(all).Milliseconds(), slices.Max(all).Milliseconds())
}
