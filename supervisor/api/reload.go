package api

import (
	"context"
	"net/http"
	"time"
)

// Reload is the outcome of a reload of the configuration.
type Reload struct {
	Specs        []string `json:"specs"`        // their names
	Warnings     []string `json:"warnings"`     // what is valid but probably a mistake
	NeedsRestart []string `json:"needsRestart"` // changed keys that count only after a restart of healthd
}

// RefusedReload is the body of the answer when the configuration is wrong and nothing has changed.
type RefusedReload struct {
	Error    string   `json:"error"`
	Problems []string `json:"problems"`
}

// ReloadError says why a reload changed nothing.
type ReloadError struct {
	Text     string
	Problems []string // of the configuration; empty: something else was wrong
}

// Error implements error.
func (e *ReloadError) Error() string { return e.Text }

// reload answers when the reload is done, or refused.
func (a *API) reload(w http.ResponseWriter, r *http.Request) {
	const timeout = time.Minute
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * timeout))
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	outcome, refused := a.reloader(ctx)
	switch {
	case refused == nil:
		a.json(w, http.StatusOK, outcome)
	case len(refused.Problems) == 0:
		a.fail(w, http.StatusServiceUnavailable, refused.Text)
	default:
		a.json(w, http.StatusConflict, RefusedReload{refused.Text, refused.Problems})
	}
}
