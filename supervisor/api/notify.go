package api

import (
	"net/http"
	"time"
)

// NotifyTest is the outcome of a test message to one receiver of notifications.
type NotifyTest struct {
	Receiver string  `json:"receiver"`
	Error    string  `json:"error"` // empty: it was delivered
	Seconds  float64 `json:"seconds"`
}

// notifyTest sends a test message to one receiver, or to all, and answers when all attempts have ended.
func (a *API) notifyTest(w http.ResponseWriter, r *http.Request) {
	const timeout = 6 * time.Minute // more than an attempt may take
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
	outcomes, err := a.testNotify(r.Context(), r.URL.Query().Get("receiver"))
	if err != nil {
		a.fail(w, http.StatusNotFound, err.Error())
		return
	}
	a.json(w, http.StatusOK, outcomes)
}
