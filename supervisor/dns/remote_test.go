package dns

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
)

// elsewhere is a ready container of another host.
func elsewhere(host, name, service, address string) supervisor.Member {
	id := host + "/" + idOf(name)
	return supervisor.Member{
		Host: host, Container: name, ID: id, Run: runtime.Run{ID: id, Started: 1}, Service: service, Address: address, Port: 32768, Ready: true,
	}
}

// The endpoints of all hosts are answered. Those of others have their host in their names, whoever else is there.
func TestOtherHosts(t *testing.T) {
	s, board := server(shop()...)
	late := elsewhere("h2", "shop-web-9", "shop/web", "10.1.0.9")
	late.Ready, late.Draining = false, true
	board.ShowRemote([]supervisor.Member{
		elsewhere("h2", "shop-web-1", "shop/web", "10.1.0.1"), elsewhere("h3.example", "shop-web-1", "shop/web", "10.2.0.1"), late,
		elsewhere("h2", "docker:x", "shop/far", "10.1.0.2"), elsewhere("h2", "a", "shop/clash", "10.1.0.3"), elsewhere("h2-a", "b", "shop/clash", "10.1.0.4"),
		elsewhere("h2", "a-b", "shop/clash", "10.1.0.5"), elsewhere("h2", "x", "cache", "10.1.0.6"),
	}, nil)
	for _, tt := range []struct{ question, want string }{
		{"web.shop.healthd. A", "10.0.0.1 10.0.0.2 10.1.0.1 10.2.0.1"},
		{"shop-web-1.web.shop.healthd. A", "10.0.0.1"},
		{"h2-shop-web-1.web.shop.healthd. A", "10.1.0.1"},
		{"H3-example-shop-web-1.web.shop.healthd. A", "10.2.0.1"},
		{"h2-shop-web-9.web.shop.healthd. A", "10.1.0.9"},
		{"far.shop.healthd. SRV", idOf("docker:x")[:12] + ".far.shop.healthd.:32768 +" + idOf("docker:x")[:12] + "=10.1.0.2"},
		{"h2-a-b.clash.shop.healthd. A", "10.1.0.5"},
		{idOf("b")[:12] + ".clash.shop.healthd. A", "10.1.0.4"},
		{"cache.healthd. SRV", idOf("x")[:12] + ".cache.healthd.:32768 +" + idOf("x")[:12] + "=10.1.0.6"},
		{"far.healthd. A", "10.1.0.2"},
	} {
		if got := line(put(t, s, question(tt.question, 0), false)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.question, got, tt.want)
		}
	}
	board.ShowRemote(nil, []string{"h2/" + idOf("shop-web-1")})
	if got := line(put(t, s, question("web.shop.healthd. A", 0), false)); got != "10.0.0.1 10.0.0.2 10.2.0.1" {
		t.Errorf("one is gone: got %s", got)
	}
}

// While indexes take too much time, a member of another host that is withdrawn or gone is not in the answers, either.
func TestOtherHostsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, board := server()
		web := []supervisor.Member{elsewhere("h2", "1", "shop/web", "10.1.0.1"), elsewhere("h2", "2", "shop/web", "10.1.0.2"), elsewhere("h2", "3", "shop/web", "10.1.0.3")}
		board.ShowRemote(web, nil)
		expect := func(when, want string) {
			t.Helper()
			if got := line(put(t, s, questionWithout("web.shop.healthd. A"), false)); got != want {
				t.Errorf("%s: got %s, want %s", when, got, want)
			}
		}
		expect("at first", "10.1.0.1 10.1.0.2 10.1.0.3")
		s.pace.spend(paceFree + 20*time.Millisecond)
		web[0].Ready = false
		board.ShowRemote(web[:1], []string{web[1].ID})
		expect("withdrawn, gone", "10.1.0.3")
	})
}

// A restart may give a member of another host another port, at the same address: nobody is told the old one any more.
func TestOtherHostsPortPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, board := server()
		web := []supervisor.Member{elsewhere("h2", "1", "shop/web", "10.1.0.1"), elsewhere("h2", "2", "shop/web", "10.1.0.1")}
		web[1].Port = 32769
		board.ShowRemote(web, nil)
		expect := func(when, want string) {
			t.Helper()
			if got := line(put(t, s, questionWithout("web.shop.healthd. SRV"), false)); got != want {
				t.Errorf("%s: got %s, want %s", when, got, want)
			}
		}
		one, two := "h2-1.web.shop.healthd.", "h2-2.web.shop.healthd."
		expect("at first", one+":32768 "+two+":32769 +h2-1=10.1.0.1 +h2-2=10.1.0.1")
		s.pace.spend(paceFree + 20*time.Millisecond)
		web[0].Port = 40000
		board.ShowRemote(web[:1], nil)
		expect("restarted", two+":32769 +h2-2=10.1.0.1")
	})
}

// Until other hosts' containers are known, what is there is answered, and what may be there is not denied.
func TestFleetIsNotKnown(t *testing.T) {
	s, board := server(shop()...)
	board.ExpectRemote()
	expect := func(when, about, want string) {
		t.Helper()
		if got := line(put(t, s, questionOf(about), false)); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	expect("not known", "db.healthd. A", "10.0.1.1")
	expect("not known", "cache.healthd. A", "SERVFAIL not-ours (healthd knows no container of that name, and not all of other hosts)")
	board.RemoteKnown()
	expect("known", "cache.healthd. A", "NXDOMAIN +soa")
}
