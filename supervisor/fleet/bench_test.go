package fleet

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"healthd/supervisor/core"
)

// A look at the board of a host with 10,000 containers, of which one has changed.
func BenchmarkLook(b *testing.B) {
	f, err := New(Config{
		Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/b/", Host: "h1", TTL: 10 * time.Second,
		AddressOf: func(*core.View) (netip.Addr, int) { return netip.AddrFrom4([4]byte{10, 0, 0, 1}), 80 },
	})
	if err != nil {
		b.Fatal(err)
	}
	d := &daemon{}
	d.board = d.newBoard()
	for i := range 10_000 {
		d.has(fmt.Sprint("web-", i), stateReady)
	}
	f.publisher.board = d.board
	w := f.publisher.look()
	for name, body := range w.keys {
		f.own.wrote(name, body, 7, 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.has("web-0", []string{stateReady, stateDraining}[i%2])
		w := f.publisher.look()
		if puts, _ := f.own.diff(w.keys, 7, true); len(w.keys) != 10_001 || len(puts) > 1 {
			b.Fatalf("%d keys, %d to put", len(w.keys), len(puts))
		}
	}
}

// A list of 10,000 members of 100 hosts, nothing of which is new.
func BenchmarkList(b *testing.B) {
	var all []record
	for h := range 100 {
		for c := range 100 {
			some, err := records(fmt.Sprintf("h%d c%d ready", h+1, c), 10)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, some...)
		}
	}
	v := newView("h0", 10*time.Second, false)
	b.ReportAllocs()
	for b.Loop() {
		v.list(all, 10, playBegin)
	}
}

// One change of a member of a fleet of 10,000.
func BenchmarkEvent(b *testing.B) {
	v := newView("h0", 10*time.Second, false)
	for h := range 100 {
		for c := range 100 {
			some, _ := records(fmt.Sprintf("h%d c%d ready", h+1, c), 10)
			v.events(some, 10, playBegin)
			v.revision = 0
		}
	}
	one, _ := records("h1 c1 draining", 10)
	two, _ := records("h1 c1 ready", 10)
	b.ReportAllocs()
	for rev := int64(11); b.Loop(); rev++ {
		some := one
		if rev%2 == 0 {
			some = two
		}
		some[0].rev = rev
		v.events(some, rev, playBegin)
		v.hostList()
	}
}
