package haproxy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"healthd/e2e/patience"
)

// startInstance is a daemon whose syncs the test makes, one after the other.
func (e *fakeSupervisor) startInstance() *instance {
	e.t.Helper()
	h, err := New(Config{Sockets: []string{e.b.socket()}, Agent: "127.0.0.1:9", Journal: e})
	if err != nil {
		e.t.Fatal(err)
	}
	h.reloadGrace, e.h = -1, h
	e.updateBoard()
	return h.instances[0]
}

// syncUntil syncs as run does until HAProxy shows these servers, and nothing is under way.
func (e *fakeSupervisor) syncUntil(l *instance, servers ...string) {
	e.t.Helper()
	patience.Until(e.t, "nothing is under way", func() error {
		if err := l.sync(context.Background(), e); err != nil {
			return err
		}
		now := time.Now()
		if b := l.backends["web"]; b == nil || l.roster.roll("web").changed() || !b.settled || len(b.watched) > 0 || b.notBefore.After(now) || !b.pollAt.After(now) {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
	if len(servers) > 0 {
		e.b.waitForServers("web", servers...)
	}
}

// A container that comes or goes soon after a whole look waits for the next one. Readiness does not, and does not make healthd
// forget the other.
func TestReadinessWhileOtherMembersWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change []string // a container, and what it is now
		want   []string
	}{
		"one comes": {[]string{"c3", "up"}, []string{"c1 A DOWN (agent) 100", "c2 B UP 100", "c3 C UP 100", sorry}},
		"one goes":  {[]string{"c2", "gone"}, []string{"c1 A DOWN (agent) 100", sorry}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, dynamic)
			e := b.newSupervisor()
			l := e.startInstance()
			e.set("c1", "A", "up")
			e.set("c2", "B", "up")
			e.syncUntil(l, "c1 A UP 100", "c2 B UP 100", sorry)
			l.backends["web"].notBefore = time.Now().Add(500 * time.Millisecond) // as after a look that took long
			e.set(tc.change[0], map[string]string{"c2": "B", "c3": "C"}[tc.change[0]], tc.change[1])
			e.set("c1", "A", "down")
			if err := l.sync(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if got, err := b.show("web"); err != nil || got[0] != "c1 A DOWN (agent) 100" {
				t.Errorf("readiness has waited: HAProxy shows %v, %v", got, err)
			}
			if !l.roster.roll("web").remade || !l.behind {
				t.Error("the other change is forgotten")
			}
			e.syncUntil(l, tc.want...)
			e.noErrors()
		})
	}
}

// What only a whole look can do is not tried again and again until one may come.
func TestNothingIsTriedInVain(t *testing.T) {
	t.Parallel()
	const wait = aliveInterval / 2
	for name, prepare := range map[string]func(now time.Time, b *backendState, r *roll){
		"a member has moved": func(_ time.Time, b *backendState, r *roll) {
			r.touched["c1"], b.agentSend["c1"] = true, ""
			b.server["c1"].forcedID, b.server["c1"].id = true, firstID
		},
		"a watched server is not there yet": func(now time.Time, b *backendState, _ *roll) {
			b.watched["c1"], b.watchAt = now, now.Add(-time.Second)
			delete(b.server, "c1")
		},
		"too many are watched": func(now time.Time, b *backendState, _ *roll) {
			for i := range 1 + watchMost(1) {
				b.watched[fmt.Sprint(i)] = now
			}
			b.watchAt = now.Add(-time.Second)
		},
		"a server is shown as no one expects": func(_ time.Time, _ *backendState, r *roll) { r.touched["c1"] = true },
	} {
		l := newInstance(&HAProxy{}, socket{})
		b, r, now := newBackendState(), l.roster.roll("web"), time.Now()
		s := &server{name: "c1", agentState: checkEnabled}
		b.servers, b.server = []*server{s}, map[string]*server{"c1": s}
		b.notBefore, b.pollAt = now.Add(wait), now.Add(time.Minute)
		l.backends["web"], r.members = b, []member{{name: "c1"}}
		prepare(now, b, r)
		looks := l.choose(now)
		if len(looks) > 0 {
			answers := []string{"nonsense"}
			if read, err := l.read(t.Context(), looks, answers); err != nil || len(read) > 0 {
				t.Fatalf("%s: %v, %v", name, read, err)
			}
		}
		if d := l.pause(now); d != wait || !l.behind {
			t.Errorf("%s: again in %v, behind %v, want %v, true", name, d, l.behind, wait)
		}
		if at, whole := b.nextLook(r, now.Add(wait)); !whole || at.After(now.Add(wait)) || !r.changed() {
			t.Errorf("%s: then a look at %v, whole %v, changed %v", name, at, whole, r.changed())
		}
	}
}

// However long a look took, the next one may come within the longest interval.
func TestALongLookIsWaitedForNoLonger(t *testing.T) {
	t.Parallel()
	l := newInstance(&HAProxy{}, socket{})
	b := newBackendState()
	b.server = map[string]*server{}
	k := &look{name: "web", b: b, roll: l.roster.roll("web"), whole: true}
	l.finish(k, nil, time.Hour)
	most := time.Now().Add(maxPollInterval)
	if b.notBefore.After(most) || b.pollAt.After(most) {
		t.Errorf("looked at again in %v, %v, want %v at most", time.Until(b.notBefore), time.Until(b.pollAt), maxPollInterval)
	}
	k.whole, k.plan = false, l.newPlan("web", b, nil)
	l.finish(k, nil, time.Hour)
	if b.watchAt.After(most.Add(time.Second)) {
		t.Errorf("watched again in %v, want %v at most", time.Until(b.watchAt), maxPollInterval)
	}
}

// A server that whole looks set down and single ones up keeps its state.
func TestRepeatsEndWithoutAWholeLook(t *testing.T) {
	t.Parallel()
	const about, down, up = "web/c1", "set server web/c1 agent down\n", "set server web/c1 agent up\n"
	l := newInstance(&HAProxy{}, socket{})
	b := newBackendState()
	b.server = map[string]*server{}
	k := &look{name: "web", b: b, roll: l.roster.roll("web"), plan: l.newPlan("web", b, nil)}
	for range 2 * maxRepeats {
		failed := map[string]string{}
		if b.countRepeats(map[string]string{about: down}, failed, time.Now()); len(failed) > 0 {
			t.Fatalf("it is reported: %v", failed)
		}
		k.finishWatched(map[string]string{about: up}, nil, 0, time.Now())
	}
}
