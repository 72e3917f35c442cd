package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"time"

	"healthd/supervisor"
)

// Bounds of each listener. The network's readers take nothing from those of the control socket.
const (
	maxStreams = 64 // event streams
	// maxLists are written at once. One holds a list of pointers, and its reader may be slow.
	maxLists = 16
	// maxScrapes of the metrics are written at once.
	maxScrapes = 8
	// listWait is how long a request waits for its turn.
	listWait = 5 * time.Second
)

// limits counts the long answers of one listener.
type limits struct{ streams, lists, scrapes chan struct{} }

func newLimits() *limits {
	return &limits{streams: make(chan struct{}, maxStreams), lists: make(chan struct{}, maxLists), scrapes: make(chan struct{}, maxScrapes)}
}

// list answers with h when fewer than maxLists others are under way.
func (a *API) list(l *limits, h http.HandlerFunc) http.HandlerFunc { return a.inTurn(l.lists, h) }

// inTurn answers with h when it gets one of places.
func (a *API) inTurn(places chan struct{}, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), listWait)
		defer cancel()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			h(w, r)
		case <-ctx.Done():
			a.busy(w, "too many long answers are being read: ask again later")
		}
	}
}

func (a *API) busy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "5")
	a.fail(w, http.StatusServiceUnavailable, message)
}

// jsonList writes one element after the other, so that no answer is in memory as a whole.
func jsonList[T any](a *API, w http.ResponseWriter, all iter.Seq[T]) {
	a.header(w, a.jsonType)
	w.WriteHeader(http.StatusOK)
	encoder, before := json.NewEncoder(supervisor.Escaping{To: w}), "["
	for element := range all {
		if _, err := io.WriteString(w, before); err != nil || encoder.Encode(element) != nil {
			return // the reader has gone
		}
		before = ","
	}
	if before == "[" {
		io.WriteString(w, before)
	}
	io.WriteString(w, "]\n")
}
