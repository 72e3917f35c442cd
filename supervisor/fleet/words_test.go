package fleet

import (
	"testing"
	"time"

	"healthd/runtime"
)

func TestCombine(t *testing.T) {
	live := func(name string, balancer, files bool) Host {
		return Host{Name: name, State: HostLive, Balancer: balancer, Files: files}
	}
	lost := Host{Name: "h3", State: HostLost, Balancer: true, Files: true}
	drained, notServed, withdrawn := said{drained: true}, said{notServed: true}, said{withdrawn: true}
	for _, row := range []struct {
		name               string
		s                  situation
		withdrawn, drained bool
	}{
		{"nobody balances", situation{connected: true, told: true}, true, false},
		{"the store does not have it yet", situation{connected: true}, false, false},
		{"this host has drained", situation{connected: true, told: true, balancer: true, own: drained}, true, true},
		{"this host does not serve it, nor does anybody", situation{connected: true, told: true, balancer: true, own: notServed}, true, false},
		{"this host has files", situation{connected: true, told: true, files: true}, false, false},
		{"this host's files are without it", situation{connected: true, told: true, files: true, own: withdrawn}, true, false},
		{"another balancer is silent", situation{connected: true, told: true, balancer: true, own: drained, hosts: []Host{live("h2", true, false)}}, true, false},
		{"another balancer has drained", situation{connected: true, told: true, balancer: true, own: drained, hosts: []Host{live("h2", true, false)}, others: map[string]said{"h2": drained}}, true, true},
		{"only another one serves it", situation{connected: true, told: true, balancer: true, own: notServed, hosts: []Host{live("h2", true, false)}, others: map[string]said{"h2": drained}}, true, true},
		{"no balancer serves it", situation{connected: true, told: true, balancer: true, own: notServed, hosts: []Host{live("h2", true, false)}, others: map[string]said{"h2": notServed}}, true, false},
		{"another host's files have it", situation{connected: true, told: true, hosts: []Host{live("h2", false, true)}}, false, false},
		{"another host's files are without it", situation{connected: true, told: true, hosts: []Host{live("h2", false, true)}, others: map[string]said{"h2": withdrawn}}, true, false},
		{"a lost host says nothing", situation{connected: true, told: true, balancer: true, own: drained, hosts: []Host{lost}}, true, true},
		{"a word of a host without balancer", situation{connected: true, told: true, hosts: []Host{live("h2", false, false)}, others: map[string]said{"h2": drained}}, true, false},
		{"etcd is away", situation{told: true, balancer: true, own: drained}, false, false},
	} {
		if w, d := combine(&row.s); w != row.withdrawn || d != row.drained {
			t.Errorf("%s: withdrawn %t, drained %t, want %t, %t", row.name, w, d, row.withdrawn, row.drained)
		}
	}
}

func TestWordsLiveAsLongAsTheirRun(t *testing.T) {
	w := newWords("h0")
	draining := func(started int64, awaits string) remote {
		return remote{host: "h1", service: "web", memberValue: memberValue{Container: "a", ID: "x", Run: started, State: stateDraining, Awaits: awaits}}
	}
	wanted := func() map[string]string {
		keys := map[string]string{}
		w.wanted(keys)
		return keys
	}
	now := playBegin
	run := runtime.Run{ID: "h1/x", Started: 1}
	if !w.say(run, said{drained: true}, now) || w.say(run, said{drained: true}, now) {
		t.Error("the same word again is a new one")
	}
	if got := wanted(); len(got) != 0 {
		t.Errorf("of a run that awaits nothing: %v", got)
	}
	w.show([]remote{draining(1, awaitsDrain)}, nil)
	if got := wanted()["words/h1/a/h0"]; got != `{"run":1,"id":"x","drained":true}` {
		t.Errorf("the word is %s", got)
	}
	ready := draining(1, "")
	ready.State = stateReady
	w.show([]remote{ready}, nil) // its healthd was ended meanwhile
	w.show([]remote{draining(1, awaitsDrain)}, nil)
	if got := wanted(); len(got) != 0 {
		t.Errorf("of one that was ready again since: %v", got)
	}
	w.say(run, said{drained: true}, now)
	w.show([]remote{draining(2, awaitsDrain)}, nil) // another run
	if got := wanted(); len(got) != 0 {
		t.Errorf("of another run: %v", got)
	}
	w.say(runtime.Run{ID: "h1/x", Started: 2}, said{notServed: true}, now)
	w.show(nil, []string{"h1/x"})
	if got := wanted(); len(got) != 0 {
		t.Errorf("of one that is gone: %v", got)
	}
	if w.forget(nil, now.Add(time.Minute)); len(w.said) != 0 || len(w.at) != 0 {
		t.Errorf("kept are %v", w.said)
	}
}

// A hold ends a drain, and the run goes on being served. What was said of that drain does not count for the next one.
func TestWordsOfADrainThatEnds(t *testing.T) {
	w := newWords("h0")
	run := runtime.Run{ID: "x", Started: 1}
	w.say(run, said{drained: true}, playBegin) // before it is known to await anything
	w.forget(nil, playBegin.Add(time.Second))
	if !w.of(run).drained {
		t.Error("the word is forgotten before the drain is known")
	}
	awaits := []localRun{{run: run}}
	w.forget(awaits, playBegin.Add(time.Second))
	if !w.of(run).drained {
		t.Error("the word is forgotten in the drain")
	}
	w.forget(nil, playBegin.Add(2*time.Second))
	w.forget(awaits, playBegin.Add(3*time.Second))
	if w.of(run).drained {
		t.Error("the word counts for the next drain")
	}
}
