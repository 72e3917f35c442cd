package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	clock        = "15:04:05.000"
	tellsHAProxy = "HAProxy" // the reason of what HAProxy shows
)

// event is something that healthd or HAProxy reported about the hung container.
type event struct {
	Time            time.Time
	Reason, Message string
}

// recovery is what must happen, in this order: HAProxy sends the container nothing from
// before its stop until it is ready again.
var recovery = []event{
	{Reason: "Ready"}, {Reason: tellsHAProxy, Message: "UP"},
	{Reason: "NotReady"}, {Reason: tellsHAProxy, Message: "DOWN (agent)"},
	{Reason: "Killing"}, {Reason: "Exited"}, {Reason: "Started"},
	{Reason: "Ready"}, {Reason: tellsHAProxy, Message: "UP"},
}

// checkRecovery returns an error unless the hung container fully recovered and no request
// failed.
func (s *demo) checkRecovery() error {
	events, err := s.hungEvents()
	if err != nil {
		return err
	}
	fmt.Printf("\nWhat happened to %s:\n", hungContainer)
	missing := recovery
	for _, e := range events {
		fmt.Printf("  %s  %-13s %s\n", e.Time.Local().Format(clock), e.Reason, e.Message)
		if len(missing) > 0 && e.Reason == missing[0].Reason && (e.Reason != tellsHAProxy || e.Message == missing[0].Message) {
			missing = missing[1:]
		}
	}
	var healed error
	if len(missing) > 0 {
		healed = fmt.Errorf("healthd did not heal %s: after the events above, %s is missing", hungContainer,
			strings.TrimSpace(missing[0].Reason+" "+missing[0].Message))
	}
	if err := errors.Join(healed, s.traffic.check()); err != nil {
		return err
	}
	fmt.Printf(`healthd withdrew %[1]s, restarted it and made it ready again. No request failed.
HAProxy retries requests that had already gone to the hung container. A hang lasts up to 2 s
before healthd withdraws %[1]s: 1 s until the next probe, and 1 s for its timeout. HAProxy
tries another container after %[2]v without an answer (retry-on, option redispatch).
`, hungContainer, serverTimeout)
	return nil
}

// hungEvents returns what healthd and HAProxy reported about the hung container, oldest
// first.
func (s *demo) hungEvents() ([]event, error) {
	response, err := http.Get("http://" + s.address + "/v1/events?container=" + hungContainer)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var events []event
	if err := json.NewDecoder(response.Body).Decode(&events); err != nil {
		return nil, err
	}
	for _, c := range s.haproxy.statesOf(hungContainer) {
		events = append(events, event{c.at, tellsHAProxy, c.state})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	return events, nil
}
