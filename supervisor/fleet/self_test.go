package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestWhatOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	load := func() *self {
		t.Helper()
		s := newSelf(dir)
		if err := s.load(false, ""); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := load()
	first.setLease(77, "h1", 10*time.Second)
	last := uint64(0)
	for range 3 * reserve { // killed in the midst of this
		if last = first.nextRevision(); last%reserve == reserve/2 {
			if err := first.save(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	second := load()
	if second.instance() != first.instance() || second.lease("h1", 10*time.Second) != 77 {
		t.Errorf("the second is %+v, the first was %+v", second.kept, first.kept)
	}
	if got := second.lease("h1", 20*time.Second); got != 0 {
		t.Errorf("with another TTL the lease is %d", got)
	}
	if got := second.lease("h2", 10*time.Second); got != 0 {
		t.Errorf("under another name the lease is %d", got)
	}
	if got := second.nextRevision(); got <= last {
		t.Errorf("revision %d comes after %d", got, last)
	}
	if err := os.WriteFile(filepath.Join(dir, "fleet.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := newSelf(dir)
	if err := third.load(true, ""); err == nil || !strings.Contains(err.Error(), "fleet.json.damaged") {
		t.Errorf("a damaged file: %v", err)
	}
	if third.alone() || third.instance() == first.instance() || third.lease("h1", 10*time.Second) != 0 || !instancePattern.MatchString(third.instance()) {
		t.Errorf("after a damaged file it is %+v", third.kept)
	}
}

// Only a host of which no daemon has known others serves its own members at once.
func TestAloneUntilOthersAreKnown(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		what                 string
		earlier, knows, want bool
	}{
		{"the first daemon with a fleet", true, false, true}, {"the next one", true, false, true}, {"one that has known others", true, true, false},
		{"the one after it", true, false, false},
	} {
		s := newSelf(dir)
		if err := s.load(step.earlier, ""); err != nil {
			t.Fatal(err)
		}
		if step.knows {
			s.knowsOthers()
		}
		if got := s.alone(); got != step.want {
			t.Errorf("%s: alone is %t", step.what, got)
		}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
	}
	for what, dir := range map[string]string{"its state is gone": t.TempDir(), "it keeps nothing": ""} {
		s := newSelf(dir)
		if err := s.load(false, ""); err != nil || s.alone() {
			t.Errorf("%s: alone is %t, %v", what, s.alone(), err)
		}
	}
}

func TestWhatIsKnownIsKept(t *testing.T) {
	v := newView("h0", 10*time.Second, false)
	all, _ := records("h1; h1 a ready 5; h2 leaving; h2 b down; h3", 10)
	v.list(all, 12, playBegin)
	gone, _ := records("-h2; -h2 b; -h3", 13)
	v.events(gone, 13, playBegin.Add(time.Second))
	file := stateFile(t.TempDir(), "fleet-members.json")
	k := v.keep()
	k.Prefix = "/healthd/"
	k.encode()
	if err := file.Write(k); err != nil {
		t.Fatal(err)
	}
	read, err := loadView(file, "/healthd/")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := loadView(file, "/other/"); err != nil || other != nil {
		t.Errorf("in another fleet: %+v, %v", other, err)
	}
	w := newView("h0", 10*time.Second, false)
	c := w.restore(read, playBegin.Add(time.Minute))
	if len(c.put) != 1 || c.put[0].boardID() != "h1/a" || c.put[0].State != stateReady || len(c.tell) != 0 {
		t.Errorf("shown is %+v, told %v", c.put, c.tell)
	}
	got, want := w.hostList(), v.hostList()
	for i := range want {
		if want[i].State == HostLive {
			want[i].Since = playBegin.Add(time.Minute)
		}
		want[i].Since, got[i].Since = want[i].Since.UTC(), got[i].Since.UTC()
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the hosts are %+v, want %+v", got, want)
	}
	// What the store does not have any more stays for a while.
	if c, back := w.list(nil, 20, playBegin.Add(2*time.Minute)); back || len(c.gone) != 0 {
		t.Errorf("gone is %v", c.gone)
	}
	if c := w.tick(playBegin.Add(2*time.Minute + 13*time.Second)); len(c.gone) != 1 {
		t.Errorf("after the TTL and 3 s gone is %v", c.gone)
	}
}

// Nothing that somebody may have written into the file breaks the view.
func FuzzKeptView(f *testing.F) {
	f.Add([]byte(`{"version":1,"revision":-5,"keys":[{"key":"hosts/h1","value":{"instance":"x"}},{"key":"members/web/h1/a"}],"gone":[{"name":"h0","state":"lost"},{"name":"h1","state":"live"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k := &keptView{}
		if json.Unmarshal(data, k) != nil {
			return
		}
		v := newView("h0", 10*time.Second, false)
		v.restore(k, playBegin)
		v.list(nil, 1, playBegin)
		v.tick(playBegin.Add(time.Minute))
		if len(v.entries) != 0 || len(v.shown) != 0 || v.bytes != 0 {
			t.Errorf("left are %v", v.entries)
		}
	})
}
