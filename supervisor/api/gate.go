package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// gate sets a readiness gate, and answers after readiness is updated.
func (a *API) gate(w http.ResponseWriter, r *http.Request) {
	v := a.findOrFail(w, r)
	if v == nil {
		return
	}
	status, err := gateStatus(r.Body)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	gate := r.PathValue("type")
	err = a.controller.SetGate(r.Context(), byID(v), gate, status)
	switch v = a.current(v); {
	case errors.Is(err, supervisor.ErrNoGate):
		a.fail(w, http.StatusNotFound, noGate(v, gate))
	case err != nil:
		a.failRequest(w, err, v.Container.Name)
	default:
		a.json(w, http.StatusOK, newStatus(v, time.Now()))
	}
}

// gateStatus parses True or False, the status of a condition in Kubernetes.
func gateStatus(body io.Reader) (bool, error) {
	const shown = 20
	data, err := io.ReadAll(body)
	if err != nil {
		return false, fmt.Errorf("the body must be True or False, it cannot be read: %w", err)
	}
	text := strings.TrimSpace(string(data))
	switch text {
	case conditionStatus(true), conditionStatus(false):
		return text == conditionStatus(true), nil
	case "":
		return false, errors.New("the body must be True or False, it is empty")
	}
	if len(text) > shown {
		return false, fmt.Errorf("the body must be True or False, it begins with %q", text[:shown])
	}
	return false, fmt.Errorf("the body must be True or False, it is %q", text)
}

// noGate returns the error text for an unknown gate, with those that the container has.
func noGate(v *core.View, gate string) string {
	text := fmt.Sprintf("%v: %q; it has ", supervisor.ErrNoGate, gate)
	if v.Spec == nil || len(v.Spec.ReadinessGates) == 0 {
		return text + "none"
	}
	return text + strings.Join(v.Spec.ReadinessGates, ", ")
}
