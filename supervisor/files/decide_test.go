package files

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const interval = 5 * time.Second
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	this, other := digest{1}, digest{2}
	failed := func(at stage, of digest, tries int, d time.Duration) failure { return failure{at, of, tries, ago(d)} }
	for _, tt := range []struct {
		name string
		s    situation
		want action
		wait time.Duration // until it looks again; 0: it acts now, or nothing is to be done
	}{
		{"nothing to do", situation{same: true}, nothing, 0},
		{"first content", situation{foreign: true, takesOut: true}, write, 0},
		{"somebody is out", situation{takesOut: true, tried: ago(0)}, write, 0},
		{"somebody is out once more", situation{takesOut: true, tired: true, tried: ago(2 * time.Second)}, nothing, 3 * time.Second},
		{"somebody is out in time", situation{takesOut: true, tired: true, tried: ago(interval)}, write, 0},
		{"somebody is back too early", situation{tried: ago(2 * time.Second)}, nothing, 3 * time.Second},
		{"somebody is back in time", situation{tried: ago(interval)}, write, 0},
		{"somebody else has written", situation{foreign: true, takesOut: true, tried: ago(400 * time.Millisecond)}, nothing, 600 * time.Millisecond},
		{"a reload is owed", situation{same: true, owed: true, tried: ago(0)}, reload, 0},
		{"a reload has failed", situation{same: true, owed: true, failed: failed(atReload, this, 1, 0)}, nothing, time.Second},
		{"a reload has failed often", situation{same: true, owed: true, failed: failed(atReload, this, 4, time.Second)}, nothing, 7 * time.Second},
		{"a reload has failed for long", situation{same: true, owed: true, failed: failed(atReload, this, 1000, 59*time.Second)}, nothing, time.Second},
		{"a reload is due again", situation{same: true, owed: true, failed: failed(atReload, this, 2, 2*time.Second)}, reload, 0},
		{"back while reloads fail", situation{owed: true, tried: ago(time.Minute), failed: failed(atReload, other, 4, time.Second)}, nothing, 7 * time.Second},
		{"out while reloads fail", situation{owed: true, takesOut: true, failed: failed(atReload, other, 4, 0)}, write, 0},
		{"refused", situation{content: this, takesOut: true, failed: failed(atCheck, this, 1, time.Second)}, nothing, 59 * time.Second},
		{"refused a minute ago", situation{content: this, failed: failed(atCheck, this, 9, time.Minute)}, write, 0},
		{"another was refused, and somebody is out", situation{content: this, takesOut: true, failed: failed(atCheck, other, 1, 0)}, write, 0},
		{"another was refused", situation{content: this, tried: ago(time.Second), failed: failed(atCheck, other, 1, time.Second)}, nothing, 4 * time.Second},
		{"not written", situation{content: this, takesOut: true, failed: failed(atWrite, this, 3, time.Second)}, nothing, 3 * time.Second},
		{"another was not written, and somebody is out", situation{content: this, takesOut: true, failed: failed(atWrite, other, 3, 0)}, write, 0},
		{"another was not written", situation{content: this, tried: ago(0), failed: failed(atWrite, other, 5, 0)}, nothing, 16 * time.Second},
	} {
		do, at := decide(&tt.s, interval, now)
		wait := time.Duration(0)
		if !at.IsZero() {
			wait = at.Sub(now)
		}
		if do != tt.want || wait != tt.wait {
			t.Errorf("%s: got %d in %v, want %d in %v", tt.name, do, wait, tt.want, tt.wait)
		}
	}
}

// Withdrawals before their time are few, whoever drives them.
func TestHaste(t *testing.T) {
	const interval = time.Second
	now := time.Unix(1000, 0)
	writes := 0
	var h haste
	for end := now.Add(30 * time.Second); now.Before(end); now = now.Add(50 * time.Millisecond) {
		if h = h.at(now, interval); h.used < maxHaste {
			h.used++
			writes++
		}
	}
	if writes < 30 || writes > 30+maxHaste {
		t.Errorf("%d writes before their time in 30 s", writes)
	}
	if h = h.at(now.Add(maxHaste*interval), interval); h.used != 0 {
		t.Errorf("after a rest %+v", h)
	}
	if h = (haste{used: maxHaste}).at(now, 0); h.used != 0 {
		t.Errorf("without an interval %+v", h)
	}
}

// What a file has had is remembered for 30 days, of 1,000 services, and kept no more often than it must be.
func TestRemember(t *testing.T) {
	now := time.Unix(1_000_000_000, 0).UTC()
	names := func(from, to int) []string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, "s"+string(rune('a'+i/676%26))+string(rune('a'+i/26%26))+string(rune('a'+i%26)))
		}
		return all
	}
	known, changed := remember(nil, []string{"a", "b"}, now)
	if !changed || len(known) != 2 {
		t.Fatalf("got %v, %v", known, changed)
	}
	if _, changed := remember(known, []string{"a", "b"}, now.Add(59*time.Minute)); changed {
		t.Error("it is kept again within an hour")
	}
	known, changed = remember(known, []string{"a"}, now.Add(time.Hour))
	if !changed || len(known) != 2 {
		t.Errorf("got %v, %v", known, changed)
	}
	if known, _ = remember(known, nil, now.Add(30*24*time.Hour)); len(known) != 1 || known["a"].IsZero() {
		t.Errorf("after 30 days there is %v", known)
	}
	known, _ = remember(known, names(0, 600), now.Add(30*24*time.Hour))
	known, _ = remember(known, names(600, 1200), now.Add(30*24*time.Hour+time.Minute))
	if _, old := known["a"]; old || len(known) != maxKnown || known[names(1199, 1200)[0]].IsZero() {
		t.Errorf("there are %d, %v", len(known), old)
	}
	if more, _ := remember(known, names(0, 1200), now); len(more) != maxKnown {
		t.Errorf("there are %d", len(more))
	} else if _, changed := remember(more, names(0, 1200), now); changed {
		t.Error("more services than are remembered change what is kept for ever")
	}
	if fixed, _ := remember(map[string]time.Time{"a": now.Add(1000 * time.Hour)}, []string{"a"}, now); !fixed["a"].Equal(now) {
		t.Errorf("a clock that was set back leaves %v", fixed)
	}
}
