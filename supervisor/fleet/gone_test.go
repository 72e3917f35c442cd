package fleet

import (
	"fmt"
	"slices"
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// While the first list of a second engine is missing, what the first engine has no more is withdrawn at once. What no
// one here knows may be the second one's, and stays.
func TestWithdrawnWhileAnEngineIsMissing(t *testing.T) {
	d := newDaemon(t, "h0", []string{"http://127.0.0.1:1"}, nil)
	d.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}, {Name: "containerd"}})
	f, err := New(d.config)
	if err != nil {
		t.Fatal(err)
	}
	p := f.publisher
	p.board = d.board
	ids := map[string]string{}
	for _, name := range []string{"stays", "goes", "renamed", "unpublished"} {
		ids[name] = d.has(name, stateReady)
	}
	of := func(name string) *core.View { v := *d.board.ByID(ids[name]); return &v }
	w := p.look()
	for name, body := range w.keys {
		f.own.wrote(name, withRevision(body, 1), 7, 5)
	}
	leftover := of("stays")
	other := *leftover.Container
	other.ID, other.Name, leftover.Container = "of-containerd", "foreign", &other
	value, err := memberOf(leftover, "foreign").encode()
	if err != nil {
		t.Fatal(err)
	}
	f.own.wrote(key{kind: memberKey, service: leftover.Service, host: "h0", container: "foreign"}.String(), value, 7, 5)

	d.board.Remove(ids["goes"])
	renamed := of("renamed")
	named := *renamed.Container
	named.Name, renamed.Container = "other-name", &named
	d.board.Show(renamed)
	unpublished := of("unpublished")
	unpublished.Service = ""
	d.board.Show(unpublished)

	w = p.look()
	puts, deletes := f.own.diff(w.keys, 7, w.known)
	want := []string{"goes", "renamed", "unpublished"}
	slices.Sort(want)
	got := plain(deletes)
	slices.Sort(got)
	if fmt.Sprint(plain(puts), got) != fmt.Sprint([]string{"other-name"}, want) {
		t.Errorf("put %v, deleted %v, want other-name put and %v deleted", plain(puts), got, want)
	}
}
