package core

import (
	"slices"
	"time"
)

// In memory, healthd's own times have a monotonic reading, so nobody who sets the clock
// changes what is waited for. A file cannot keep that reading. A Memory is therefore written
// by the wall clock of that moment, with a Stamp of both clocks. Who reads it moves all times
// so that they lie as far from the present as they did then, and as much longer ago as the
// file is old. Times by an engine's clock stay as they are.

// ByClock returns when t was, or will be, by the clock as now has it, in UTC. A clock that was set since t was made has moved
// t as seen on it. What is left of a step after whole seconds is left out: a clock that is slowly put right would
// change t each time that it is shown. Times without a monotonic reading, such as an engine's, stay as they are.
func ByClock(t, now time.Time) time.Time {
	step := now.Round(0).Sub(t.Round(0)) - now.Sub(t)
	return t.Add(step.Round(time.Second)).UTC()
}

// Stamp is a moment by both clocks of a host.
type Stamp struct {
	Wall      time.Time     `json:"wall"`
	Monotonic time.Duration `json:"monotonic"`      // since some moment of the host's boot
	Boot      string        `json:"boot,omitempty"` // ID of that boot; empty: unknown
}

// since returns how long ago the earlier stamp was made. After a reboot of the host only the
// wall clock tells; where it was set back meanwhile, no time has passed.
func (s Stamp) since(earlier Stamp) time.Duration {
	if s.Boot != "" && s.Boot == earlier.Boot {
		return max(0, s.Monotonic-earlier.Monotonic)
	}
	return max(0, s.Wall.Round(0).Sub(earlier.Wall))
}

// ForFile returns the memory with all times of healthd's own by the wall clock of now, whose
// Wall has a monotonic reading.
func (m Memory) ForFile(now Stamp) Memory {
	wall := now.Wall.Round(0)
	m.rebase(now.Wall, wall)
	now.Wall = wall
	m.Written = now
	return m
}

// FromFile undoes ForFile: all times of healthd's own get a monotonic reading again.
func (m Memory) FromFile(now Stamp) Memory {
	from, to := m.Written.Wall, now.Wall.Add(-now.since(m.Written))
	if from.IsZero() { // an older daemon wrote no stamp
		from, to = now.Wall.Round(0), now.Wall
	}
	m.rebase(from, to)
	if !m.Written.Wall.IsZero() {
		m.Written = Stamp{Wall: to}
	}
	return m
}

// rebase moves all times of healthd's own so that they lie from to as they lay from from.
func (m *Memory) rebase(from, to time.Time) {
	kept := *m.Kept
	m.Kept = &kept
	m.Gates, m.Granted, m.Restarted = slices.Clone(m.Gates), slices.Clone(m.Granted), slices.Clone(m.Restarted)
	all := []*time.Time{
		&m.Gone, &m.Down.Since, &m.Run.BeganAt, &m.Run.EndedAt, &m.Action.NotBefore, &m.Action.Withdrawn, &m.Ending.OwnHeardAt, &m.Ending.ForgetAt,
		&m.Conditions.Started.Since, &m.Conditions.ContainerReady.Since, &m.Conditions.Ready.Since, &m.Lasting.HeldHereUntil,
	}
	for i := range m.Gates {
		all = append(all, &m.Gates[i].At)
	}
	for i := range m.Granted {
		all = append(all, &m.Granted[i])
	}
	for i := range m.Restarted {
		all = append(all, &m.Restarted[i])
	}
	for _, at := range all {
		if !at.IsZero() {
			*at = to.Add(at.Sub(from))
		}
	}
}
