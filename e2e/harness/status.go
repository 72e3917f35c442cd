package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Status is the part of a status object that these tests use.
type Status struct {
	Name         string `json:"name"`
	Spec         string `json:"spec"`
	Service      string `json:"service"`
	Address      string `json:"address"`
	Phase        string `json:"phase"`
	Started      bool   `json:"started"`
	Ready        bool   `json:"ready"`
	Draining     bool   `json:"draining"`
	EnginePolicy string `json:"enginePolicy"`
	RestartCount int    `json:"restartCount"`
	Held         bool   `json:"held"`
	Invalid      string `json:"invalid"`
	Unsupervised string `json:"unsupervised"`
	State        struct {
		Running *struct{ StartedAt time.Time } `json:"running"`
		Waiting *struct {
			Reason, Message string
			Until           time.Time
		} `json:"waiting"`
		Terminated *struct {
			ExitCode int    `json:"exitCode"`
			Reason   string `json:"reason"`
		} `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated *struct {
			ExitCode   int       `json:"exitCode"`
			Reason     string    `json:"reason"`
			FinishedAt time.Time `json:"finishedAt"`
		} `json:"terminated"`
	} `json:"lastState"`
	Probes map[string]struct {
		Result        string    `json:"result"`
		Outcome       string    `json:"outcome"`
		Run           int       `json:"run"`
		Output        string    `json:"output"`
		LastProbeTime time.Time `json:"lastProbeTime"`
	} `json:"probes"`
	Conditions []Condition `json:"conditions"`
}

// Condition is one of a container's conditions.
type Condition struct{ Type, Status, Reason string }

// Condition returns the condition of that type, and an empty one where there is none.
func (s Status) Condition(name string) Condition {
	for _, c := range s.Conditions {
		if c.Type == name {
			return c
		}
	}
	return Condition{}
}

// Status returns the status of one container.
func (d *Daemon) Status(name string) (Status, error) {
	var s Status
	code, body, err := d.Get("/v1/containers/" + name)
	if err != nil {
		return s, err
	}
	if code != http.StatusOK {
		return s, fmt.Errorf("%d: %s", code, body)
	}
	return s, json.Unmarshal([]byte(body), &s)
}

// Event is one entry of the history.
type Event struct {
	Time                       time.Time
	Container, Reason, Message string
	Count                      int
	First                      time.Time
}

// Events returns a container's events, or those of all for an empty name, oldest first. All that a status said before is
// among them: healthd shows a state, then records what it says of it, and then its loop answers.
func (d *Daemon) Events(name string) []Event {
	d.T.Helper()
	var all []Event
	_, _, _ = d.Get("/livez")
	_, body, err := d.Get("/v1/events?container=" + name)
	if err == nil {
		err = json.Unmarshal([]byte(body), &all)
	}
	if err != nil {
		d.T.Fatalf("cannot read events: %v", err)
	}
	return all
}

// Reasons returns the reasons of a container's events, oldest first.
func (d *Daemon) Reasons(name string) []string {
	d.T.Helper()
	var all []string
	for _, e := range d.Events(name) {
		all = append(all, e.Reason)
	}
	return all
}

// CountEvents returns how many events of that reason a container has.
func (d *Daemon) CountEvents(name, reason string) int {
	d.T.Helper()
	n := 0
	for _, r := range d.Reasons(name) {
		if r == reason {
			n++
		}
	}
	return n
}

// RuntimeUp returns nil when healthd says that its engine is there ("1") or away ("0").
func (d *Daemon) RuntimeUp(want string) error {
	_, metrics, err := d.Get("/metrics")
	if err == nil && !strings.Contains(metrics, fmt.Sprintf("healthd_runtime_up{runtime=%q} %s", d.Runtime, want)) {
		err = errors.New("healthd_runtime_up is not " + want)
	}
	return err
}

// Ready is true of a ready container.
func Ready(s Status) bool { return s.Ready }

// ByOperator is true of one that an operator stopped.
func ByOperator(s Status) bool {
	return s.State.Terminated != nil && s.State.Terminated.Reason == "StoppedByOperator"
}

// Restarted is true of one that runs again after n restarts.
func Restarted(n int) func(Status) bool {
	return func(s Status) bool { return s.RestartCount == n && s.State.Running != nil }
}

// WaitsFor is true of one that waits for that reason.
func WaitsFor(reason string) func(Status) bool {
	return func(s Status) bool { return s.State.Waiting != nil && s.State.Waiting.Reason == reason }
}
