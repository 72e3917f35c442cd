package supervisor_test

import (
	"log"
	"net/http"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/metrics"
)

// Metrics import the supervisor, so that its own tests cannot import them.
func init() {
	supervisor.NewMetrics = func(b *supervisor.Board, journalUp func() bool) (http.Handler, func(ok bool, at time.Time)) {
		reloads := metrics.NewReload()
		return metrics.Handler(b, "test", log.Default(), reloads, metrics.NewJournal(journalUp)), reloads.Done
	}
}
