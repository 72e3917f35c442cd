package supervisor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// Readiness follows a gate at once, and the gate outlives the run.
func TestSetGate(t *testing.T) {
	spec := noDrainSpec()
	spec.ReadinessGates = []string{"warm", "paid"}
	play(t, spec, func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		for _, tt := range []struct {
			gate   string
			status bool
			ready  bool
		}{
			{"warm", true, false}, {"warm", false, false}, {"paid", true, false}, {"warm", true, true}, {"warm", true, true},
			{"paid", false, false}, {"paid", true, true},
		} {
			h.must(h.SetGate(h.t.Context(), "n-c1", tt.gate, tt.status))
			v, _ := h.Board().Find("c1") // readiness has followed when SetGate returns
			if v.State.Conditions.Ready.Status != tt.ready || !v.State.Conditions.ContainerReady.Status {
				h.t.Errorf("%s %v: ready %v, want %v; the container itself: %v", tt.gate, tt.status, v.State.Conditions.Ready.Status, tt.ready, v.State.Conditions.ContainerReady.Status)
			}
		}
		h.engine.exit("c1", 1)
		pass(time.Millisecond)
		if s := h.view("c1").State; !s.Conditions.Ready.Status || s.RestartCount() != 1 {
			h.t.Errorf("the next run is not ready though its gates are True: %+v", s)
		}
	})
}

func TestSetGateErrors(t *testing.T) {
	spec := webSpec()
	spec.ReadinessGates = []string{"warm"}
	play(t, spec, func(h *harness) {
		h.engine.run("c1")
		h.engine.run("gone")
		h.create(runtime.Container{ID: "bad", Name: "bad", Labels: map[string]string{"wrong": "period: no number"}})
		synctest.Wait()
		late := request{id: "gone", do: func(*loop, *entry) error { return errors.New("was done") }}
		h.remove("gone")
		for _, tt := range []struct {
			container, gate string
			want            error
		}{
			{"nobody", "warm", ErrUnknownContainer}, {"gone", "warm", ErrUnknownContainer}, {"n-gone", "warm", ErrUnknownContainer},
			{"c1", "cold", ErrNoGate}, {"c1", "", ErrNoGate}, {"c1", "warm", nil},
		} {
			synctest.Wait()
			if err := h.SetGate(h.t.Context(), tt.container, tt.gate, true); !errors.Is(err, tt.want) {
				h.t.Errorf("SetGate(%q, %q): %v, want %v", tt.container, tt.gate, err, tt.want)
			}
		}
		if err := h.request(h.t.Context(), late); !errors.Is(err, ErrUnknownContainer) {
			h.t.Errorf("a request for a container that was removed meanwhile: %v", err)
		}
		if err := h.SetGate(h.t.Context(), "bad", "warm", true); err == nil || !strings.Contains(err.Error(), "period: no number") {
			h.t.Errorf("a container with invalid labels: %v", err)
		}
		if s := h.view("c1").State; len(s.Gates) != 1 {
			h.t.Errorf("gates %+v, want only the one that there is", s.Gates)
		}
	})
}
