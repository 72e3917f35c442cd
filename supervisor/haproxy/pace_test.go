package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// When a backend is looked at next, and whether as a whole.
func TestNextLook(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	const minute, second = time.Minute, time.Second
	for name, tc := range map[string]struct {
		b     backendState
		r     roll
		at    time.Time
		whole bool
	}{
		"nothing happens":                  {backendState{pollAt: in(second)}, roll{}, in(second), true},
		"its time has come":                {backendState{pollAt: in(-second)}, roll{}, in(-second), true},
		"nothing is known of it":           {backendState{pollAt: in(second), servers: nil}, roll{remade: true}, time.Time{}, true},
		"other members":                    {backendState{pollAt: in(second)}, roll{remade: true}, time.Time{}, true},
		"other members, just looked at":    {backendState{pollAt: in(minute), notBefore: in(second)}, roll{remade: true}, in(second), true},
		"readiness":                        {backendState{pollAt: in(second)}, roll{touched: map[string]bool{"c1": true}}, now, false},
		"readiness, just looked at":        {backendState{pollAt: in(minute), notBefore: in(second)}, roll{touched: map[string]bool{"c1": true}}, now, false},
		"readiness, and its time has come": {backendState{pollAt: in(-second)}, roll{touched: map[string]bool{"c1": true}}, in(-second), true},
		"readiness and other members":      {backendState{pollAt: in(second)}, roll{remade: true, touched: map[string]bool{"c1": true}}, time.Time{}, true},
		"watched": {backendState{pollAt: in(minute), watchAt: in(second), watched: map[string]time.Time{"c1": {}}},
			roll{}, in(second), false},
		"watched, after a whole look": {backendState{pollAt: in(second), watchAt: in(minute), watched: map[string]time.Time{"c1": {}}},
			roll{}, in(second), true},
	} {
		if name != "nothing is known of it" {
			tc.b.servers = []*server{}
		}
		if at, whole := tc.b.nextLook(&tc.r, now); !at.Equal(tc.at) || whole != tc.whole {
			t.Errorf("%s: %v, %v, want %v, %v", name, at, whole, tc.at, tc.whole)
		}
	}
}

// Looks that nothing calls for take a small part of the time, whatever they take and however many backends there are.
func TestIntervals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		backends   int
		took       time.Duration // each
		idle, soon time.Duration
	}{
		{1, time.Millisecond, pollInterval, pollSoon},
		{50, time.Millisecond, pollInterval, 200 * time.Millisecond},
		{50, 2 * time.Millisecond, 2 * time.Second, 400 * time.Millisecond},
		{1, 100 * time.Millisecond, 2 * time.Second, 400 * time.Millisecond},
		{1, 5 * time.Second, maxPollInterval, pollInterval},
	} {
		l := newInstance(&HAProxy{}, socket{})
		for n := range tc.backends {
			l.backends[fmt.Sprint(n)] = &backendState{took: tc.took}
		}
		if l.idleInterval() != tc.idle || l.soonInterval() != tc.soon {
			t.Errorf("%d backends of %v: %v, %v, want %v, %v", tc.backends, tc.took, l.idleInterval(), l.soonInterval(), tc.idle, tc.soon)
		}
	}
	for servers, want := range map[int]int{0: 4, 32: 4, 200: 25, 10_000: 64} {
		if got := watchMost(servers); got != want {
			t.Errorf("%d of %d servers are watched, want %d", got, servers, want)
		}
	}
}

// A backend that changes all the time does not keep others waiting that have changed, too.
func TestChangedBackendsTakeTurns(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newInstance(&HAProxy{}, socket{})
	for name, pollAt := range map[string]time.Time{"busy": now, "other": now.Add(maxPollInterval)} {
		l.backends[name] = &backendState{servers: make([]*server, serversAtOnce), pollAt: pollAt, notBefore: pollAt.Add(-maxPollInterval)}
		l.roster.roll(name).remade = true
	}
	l.backends["busy"].notBefore = now
	const turns = 3
	for range turns {
		for _, k := range l.choose(now) {
			if k.name == "other" {
				return
			}
			k.b.pollAt, k.b.notBefore = now, now // it got many commands, and has changed again
		}
		now = now.Add(10 * time.Millisecond)
	}
	t.Errorf("after %d turns of the one, the other still waits", turns)
}

// A sync looks at a bounded number of servers, those of changed backends first; single servers come in any case.
func TestLooksOfOneSync(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newInstance(&HAProxy{}, socket{})
	add := func(name string, servers int, b backendState, r roll) {
		b.servers, b.server, b.agentSend = make([]*server, servers), map[string]*server{}, map[string]string{}
		if r.touched == nil {
			r.touched = map[string]bool{}
		}
		l.backends[name], l.roster.backends[name] = &b, &r
	}
	add("late", 200, backendState{pollAt: now.Add(-2 * time.Second)}, roll{})
	add("later", 200, backendState{pollAt: now.Add(-time.Second)}, roll{})
	add("changed", 200, backendState{pollAt: now.Add(time.Second)}, roll{remade: true})
	add("huge", 10_000, backendState{pollAt: now.Add(-time.Second)}, roll{})
	add("huge and changed", 10_000, backendState{pollAt: now.Add(time.Second), notBefore: now.Add(time.Second)}, roll{remade: true})
	add("idle", 200, backendState{pollAt: now.Add(time.Second)}, roll{})
	add("ready", 200, backendState{pollAt: now.Add(time.Second)}, roll{members: []member{{name: "c1"}}, touched: map[string]bool{"c1": true}})
	l.backends["ready"].server["c1"] = &server{name: "c1", agentState: checkEnabled}
	chosen := func() string {
		var names []string
		for _, k := range l.choose(now) {
			names = append(names, fmt.Sprintf("%s %v", k.name, k.whole))
			if k.whole { // as if it was done
				k.b.pollAt = now.Add(time.Second)
			}
			k.roll.clear()
		}
		return strings.Join(names, ", ")
	}
	add("soon", 100, backendState{pollAt: now.Add(alongWith)}, roll{})
	for turn, want := range []string{"ready false, changed true, late true, soon true", "huge true", "later true", ""} {
		if got := chosen(); got != want {
			t.Errorf("turn %d: %s, want %s, of %v", turn, got, want, slices.Sorted(maps.Keys(l.backends)))
		}
	}
	if !l.behind {
		t.Error("what waits is not known to wait")
	}
}
