package api

import (
	"fmt"
	"net/http"
	"time"

	"healthd/supervisor/core"
)

// MaxHold is the longest duration of a hold. A hold without a duration does not end.
const MaxHold = 10 * 365 * 24 * time.Hour

// ParseHold parses the duration of a hold, which must be positive and at most MaxHold.
func ParseHold(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("for must be a duration such as 10m, it is %q", s)
	case d <= 0:
		return 0, fmt.Errorf("for must be more than 0s, it is %q", s)
	case d > MaxHold:
		return 0, fmt.Errorf("for must be at most %.0fh, which is 10 years, it is %q", MaxHold.Hours(), s)
	}
	return d, nil
}

// hold answers after the hold has begun.
func (a *API) hold(w http.ResponseWriter, r *http.Request) {
	v := a.findOrFail(w, r)
	if v == nil {
		return
	}
	d, err := holdDuration(r)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	a.answerStatus(w, v, a.controller.Hold(r.Context(), byID(v), until))
}

// holdDuration returns zero, a hold without an end, only when the parameter is missing: a typo
// in it must not have that effect.
func holdDuration(r *http.Request) (time.Duration, error) {
	if err := r.ParseForm(); err != nil {
		return 0, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	if !r.Form.Has("for") {
		return 0, nil
	}
	return ParseHold(r.Form.Get("for"))
}

func (a *API) resume(w http.ResponseWriter, r *http.Request) {
	if v := a.findOrFail(w, r); v != nil {
		a.answerStatus(w, v, a.controller.Resume(r.Context(), byID(v)))
	}
}

// answerStatus answers a request with err, or with the container's status now.
func (a *API) answerStatus(w http.ResponseWriter, v *core.View, err error) {
	if err != nil {
		a.failRequest(w, err, v.Container.Name)
		return
	}
	a.json(w, http.StatusOK, newStatus(a.current(v), time.Now()))
}
