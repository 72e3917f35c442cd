package notify

import (
	"fmt"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// members are what matters of the containers of one service.
type members struct {
	all, ready int
	unknown    int // their engine is away
	held       int
	expected   int       // see core.View.ShouldServe
	served     bool      // one of them was ready before
	since      time.Time // when the last one of them ceased to be ready
	example    *core.View
}

func (m *members) add(v *core.View) {
	m.all++
	s := &v.State
	if s.Lost {
		m.unknown++
		return
	}
	ready := s.Conditions.Ready
	if v.Spec != nil && ready.Status {
		m.ready++
		return
	}
	if !ready.Since.IsZero() {
		m.served = true
		if ready.Since.After(m.since) {
			m.since = ready.Since
		}
	}
	if s.Lasting.Held() {
		m.held++
	}
	if !v.ShouldServe() {
		return
	}
	m.expected++
	if m.example == nil || v.Container.Name < m.example.Container.Name {
		m.example = v
	}
}

// addService adds a service of which no member is ready. While one cannot be seen, it keeps what it was.
func (f *facts) addService(name string, m *members) {
	if m.ready > 0 || m.unknown > 0 || m.expected == 0 {
		return
	}
	i := incident{
		subject: subject{Reason: ServiceDown, Service: name, Project: core.ProjectOf(m.example.Container.Labels)},
		Since:   m.since,
		Cause:   m.cause(),
		Next:    "load balancers get no member of it; healthd goes on probing, and restarts by the spec of each container",
	}
	after := neverUpAfter
	if m.served {
		after = downAfter
	}
	f.add(i, after)
}

// unsettled says that nobody can say whether a service that was down still is: its engine is away, or
// somebody holds its containers. nil: it has none.
func (m *members) unsettled(b *supervisor.Board) bool {
	if m == nil {
		return !b.Synced()
	}
	return m.ready == 0 && (m.unknown > 0 || m.held > 0)
}

func (m *members) cause() string {
	text := fmt.Sprintf("none of %d containers is ready", m.all)
	if m.all == 1 {
		text = "its one container is not ready"
	}
	_, reason, _ := m.example.Readiness()
	text += "; " + m.example.Container.Name + ": " + reason
	if cause := causeOf(m.example); cause != reason {
		text += ": " + cause
	}
	return clip(text)
}
