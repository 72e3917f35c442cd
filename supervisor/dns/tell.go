package dns

import (
	"fmt"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// teller tells of each problem once, as long as it lasts. When there are many it tells of some, and of the others
// later: who gives names to services shall not fill the history.
type teller struct {
	told  map[string]bool // by what they are about
	spent float64         // events that count
	at    time.Time
}

const (
	maxEvents   = 10 // at once
	eventsEvery = time.Minute
)

func (t *teller) tell(journal supervisor.Journal, all []problem, now time.Time) {
	t.spent = max(0, t.spent-float64(now.Sub(t.at))/float64(eventsEvery))
	t.at = now
	still := make(map[string]bool, len(t.told))
	for _, p := range all {
		switch {
		case t.told[p.about]:
		case t.spent+1 > maxEvents:
			continue
		default:
			t.spent++
			text := p.text
			if t.spent+1 > maxEvents {
				text = fmt.Sprintf("%s (others are told of later: healthd_dns_unserved_services counts them)", text)
			}
			journal.Record(core.Event{Time: now, Reason: EventError, Message: text})
		}
		still[p.about] = true
	}
	t.told = still
}
