package dns

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"healthd/e2e/patience"
	"healthd/supervisor"
)

// A query after a change is answered with what is then on the board.
func TestChanges(t *testing.T) {
	s, board := server(shop()...)
	for _, tt := range []struct {
		change         string
		make           func()
		question, want string
	}{
		{"at first", func() {}, "web.shop.healthd. A", "10.0.0.1 10.0.0.2"},
		{"withdrawn", func() { board.Show(view("shop-web-1", "shop/web", "10.0.0.1", draining)) }, "web.shop.healthd. A", "10.0.0.2"},
		{"its own name stays", func() {}, "shop-web-1.web.shop.healthd. A", "10.0.0.1"},
		{"ready", func() { board.Show(view("shop-web-3", "shop/web", "10.0.0.3")) }, "web.shop.healthd. A", "10.0.0.2 10.0.0.3"},
		{"new", func() { board.Show(view("shop-web-9", "shop/web", "10.0.0.9")) }, "web.shop.healthd. A", "10.0.0.2 10.0.0.3 10.0.0.9"},
		{"removed", func() { board.Remove(idOf("shop-web-2")) }, "web.shop.healthd. A", "10.0.0.3 10.0.0.9"},
		{"it has no name any more", func() {}, "shop-web-2.web.shop.healthd. A", "NXDOMAIN +soa"},
		{"another address", func() { board.Show(view("shop-web-3", "shop/web", "10.0.0.33")) }, "web.shop.healthd. A", "10.0.0.33 10.0.0.9"},
		{"another service", func() { board.Show(view("shop-web-3", "shop/api", "10.0.0.33")) }, "web.shop.healthd. A", "10.0.0.9"},
		{"short for one again", func() { board.Remove(idOf("blog-api-1")) }, "api.healthd. A", "10.0.0.33 10.0.3.1"},
	} {
		tt.make()
		if got := line(put(t, s, question(tt.question, 0), false)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.change, got, tt.want)
		}
	}
}

// While indexes take too much time, what is withdrawn is not in the answers, and what is new is there a little later.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, board := server(shop()...)
		expect := func(when, question, want string) {
			t.Helper()
			if got := line(put(t, s, questionWithout(question), false)); got != want {
				t.Errorf("%s: got %s, want %s", when, got, want)
			}
		}
		const web, srv = "web.shop.healthd. A", "_http._tcp.web.shop.healthd. SRV"
		expect("at first", web, "10.0.0.1 10.0.0.2")
		s.pace.spend(paceFree + 20*time.Millisecond)
		board.Show(view("shop-web-1", "shop/web", "10.0.0.1", draining))
		board.Show(view("shop-web-3", "shop/web", "10.0.0.3"))
		expect("withdrawn", web, "10.0.0.2")
		expect("withdrawn", srv, "shop-web-2.web.shop.healthd.:8081 shop-web-5.web.shop.healthd.:8080 +shop-web-2=10.0.0.2 +shop-web-5=fd00::5")
		board.Remove(idOf("shop-web-2"))
		expect("removed", web, "+soa")
		board.Show(view("shop-web-5", "shop/api", "fd00::5"))
		expect("another service", "web.shop.healthd. AAAA", "+soa")
		time.Sleep(pacePart * 20 * time.Millisecond)
		expect("soon", web, "+soa")
		time.Sleep(time.Millisecond)
		expect("then", web, "10.0.0.3")
	})
}

func TestPace(t *testing.T) {
	now := time.Now()
	var p pace
	built := 0
	for at := time.Duration(0); at < 10*time.Second; at += 20 * time.Millisecond {
		if p.allows(now.Add(at)) {
			p.spend(20 * time.Millisecond)
			built++
		}
	}
	if built < 100 || built > 106 { // a fifth of the time, and 100 ms at first
		t.Errorf("built %d times 20 ms in 10 s", built)
	}
}

// Queries that come together after a change need one index.
func TestOneIndexForAll(t *testing.T) {
	s, board := server(many("shop/web", 1000)...)
	before, _ := s.current()
	s.pace = pace{} // a busy machine may have taken so long that the next one has to wait
	board.Show(view("shop-web-1", "shop/web", "10.0.0.1", unready))
	found := make([]*index, 50)
	var askers sync.WaitGroup
	for i := range found {
		askers.Go(func() { found[i], _ = s.current() })
	}
	askers.Wait()
	for _, x := range found {
		if x != found[0] || x == before {
			t.Fatal("there are several indexes")
		}
	}
	if again, _ := s.current(); again != found[0] {
		t.Error("without a change there is another one")
	}
}

// While containers come and go, no answer has one that was withdrawn before it was asked for.
func TestQueriesWhileThingsChange(t *testing.T) {
	const members, changes = 20, 2000
	s, board := server(many("shop/web", members)...)
	var ready [members]atomic.Int64 // odd: it is; each change counts
	for i := range ready {
		ready[i].Store(1)
	}
	done := make(chan struct{})
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			w := newWriter(maxUDP)
			packet, _ := question("web.shop.healthd. A", 1232).Pack()
			for n := 0; ; n++ {
				select {
				case <-done:
					t.Logf("asked %d times", n)
					return
				default:
				}
				var before [members]int64
				for i := range before {
					before[i] = ready[i].Load()
				}
				got := new(miekg.Msg)
				if err := got.Unpack(s.respond(w, packet, false)); err != nil {
					t.Error(err)
					return
				}
				answered := line(got) + " "
				for i := range before {
					withdrawn := before[i]%2 == 0 && ready[i].Load() == before[i]
					if withdrawn && strings.Contains(answered, fmt.Sprintf("10.0.0.%d ", i)) {
						t.Errorf("%d is in the answer and was withdrawn before", i)
					}
				}
			}
		})
	}
	for range changes {
		i := rand.IntN(members)
		v := view(fmt.Sprintf("shop-web-%d", i), "shop/web", fmt.Sprintf("10.0.0.%d", i))
		switch {
		case ready[i].Load()%2 == 0:
			ready[i].Add(1)
			board.Show(v)
		case i%2 == 0:
			unready(v)
			board.Show(v)
			ready[i].Add(1)
		default:
			board.Remove(v.Container.ID)
			ready[i].Add(1)
		}
	}
	close(done)
	askers.Wait()
}

// A problem is told once while it lasts, and again when it has come back. Many are told of by and by.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		var tell teller
		lasting := []problem{{"a", "a is wrong"}}
		for range 3 {
			tell.tell(h, lasting, time.Now())
		}
		tell.tell(h, nil, time.Now())
		tell.tell(h, lasting, time.Now())
		if got := strings.Join(h.texts(), "\n"); got != "DNSError: a is wrong\nDNSError: a is wrong" {
			t.Errorf("got %s", got)
		}
		for i := range 1000 {
			lasting = append(lasting, problem{fmt.Sprint(i), "x"})
		}
		for range 60 {
			tell.tell(h, lasting, time.Now())
			time.Sleep(time.Minute)
		}
		told := h.texts()
		if len(told) != maxEvents+59 || !strings.Contains(told[9], "(others are told of later") {
			t.Errorf("told %d, the last at once %q", len(told), told[9])
		}
	})
}

// Somebody is told of names that are wrong before they are asked for.
func TestToldWithoutQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, board := server(view("a", "a..b/c", "10.0.0.1", owned))
		go func() { _ = s.watch(t.Context()) }()
		synctest.Wait()
		board.Show(view("b", "shop/"+strings.Repeat("x", 64), "10.0.0.2"))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if told := s.journal.(*history).texts(); len(told) != 2 {
			t.Errorf("told %q", told)
		}
	})
}

// Until all is known nobody is told, and no index is made.
func TestNothingBeforeTheSync(t *testing.T) {
	s := New(supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}}, view("a", "a..b", "10.0.0.1")), &history{})
	put(t, s, questionWithout("a.healthd. A"), false)
	if s.newest.Load() != nil || len(s.journal.(*history).texts()) > 0 {
		t.Error("there is an index")
	}
}

// Silence hangs requests of nginx and Caddy: no query is lost, also while many wait for the next index.
func TestNoQueryIsLost(t *testing.T) {
	const clients, queries = 100, 50
	views := many("shop/web", 2000)
	for i, v := range views {
		v.Service = fmt.Sprintf("shop/web%d", i/10)
	}
	s, board := server(views...)
	address := start(t, s, 4)
	done := make(chan struct{})
	var changer, askers sync.WaitGroup
	changer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			v := view("shop-web-1", "shop/web0", "10.0.0.1")
			if i%2 == 0 {
				unready(v)
			}
			board.Show(v)
			time.Sleep(time.Millisecond) // changes come by and by
		}
	})
	for range clients {
		askers.Go(func() {
			conn, err := miekg.Dial("udp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for range queries {
				_ = conn.SetDeadline(time.Now().Add(patience.Limit))
				if err := conn.WriteMsg(question("web7.shop.healthd. A", 1232)); err != nil {
					t.Error(err)
				}
				if m, err := conn.ReadMsg(); err != nil || len(m.Answer) != 10 {
					t.Errorf("%v, %v", m, err)
					return
				}
			}
		})
	}
	askers.Wait()
	close(done)
	changer.Wait()
}
