package main

import (
	"slices"
	"testing"
	"time"

	"healthd/bench/engine"
)

func TestLedger(t *testing.T) {
	l := newLedger()
	act := func(id, kind string) engine.Act { return engine.Act{Kind: kind, ID: id} }
	came := l.expect("hung", engine.Stop, engine.Start)
	l.expect("forgotten", engine.Start)
	l.forget("forgotten")
	if got := l.enter([]engine.Act{act("hung", engine.Stop)}); got != nil || !l.expects("hung") {
		t.Errorf("after the stop: unasked %v, more is expected: %v", got, l.expects("hung"))
	}
	if got := l.enter([]engine.Act{act("hung", engine.Start)}); got != nil || l.expects("hung") {
		t.Errorf("after the start: unasked %v, more is expected: %v", got, l.expects("hung"))
	}
	if first, second := <-came, <-came; first.Kind != engine.Stop || second.Kind != engine.Start {
		t.Errorf("told of a %s and a %s", first.Kind, second.Kind)
	}
	l.expect("crashed", engine.Start)
	for name, a := range map[string]engine.Act{
		"once too often":  act("hung", engine.Start),
		"too late":        act("forgotten", engine.Start),
		"the wrong kind":  act("crashed", engine.Stop),
		"of no known one": act("well", engine.Stop),
	} {
		if got := l.enter([]engine.Act{a}); !slices.Equal(got, []engine.Act{a}) {
			t.Errorf("%s: unasked %v", name, got)
		}
	}
	if !l.expects("crashed") {
		t.Error("what nobody asked for took the place of what is expected")
	}
}

func TestMetricIn(t *testing.T) {
	const text = "# HELP up x\nup{a=\"b\"} 1\nup_more 2.5e+03\nup 7\n"
	for name, want := range map[string]float64{`up{a="b"}`: 1, "up_more": 2500, "up": 7} {
		if got, ok := metricIn(text, name); !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, ok, want)
		}
	}
	if got, ok := metricIn(text, "up_mor"); ok {
		t.Errorf("found %v", got)
	}
}

// Each stretch after the warm-up is alike: it has as many reloads, and, unless it is short, the engine goes away once.
func TestStretchesAreAlike(t *testing.T) {
	for length, aways := range map[time.Duration]int{20 * time.Minute: stretches, 4 * time.Minute: stretches, time.Minute: 3, 20 * time.Second: 1} {
		p := soakPlan{length: length, period: 5 * time.Second}
		if got := p.aways(); got != aways {
			t.Errorf("%v: the engine goes away %d times, want %d", length, got, aways)
		}
		if got := p.stretch() / p.reloadEvery(); length >= 4*time.Minute && got != reloadsOnce {
			t.Errorf("%v: %d reloads in a stretch", length, got)
		}
	}
}
