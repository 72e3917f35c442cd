package dns

import (
	"errors"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

func shop() []*core.View {
	return []*core.View{
		view("shop-web-1", "shop/web", "10.0.0.1"),
		view("shop-web-2", "shop/web", "10.0.0.2", port(8081)),
		view("shop-web-3", "shop/web", "10.0.0.3", unready),
		view("shop-web-4", "shop/web", "10.0.0.4", draining),
		view("shop-web-5", "shop/web", "fd00::5"),
		view("shop-web-6", "shop/web", ""),
		view("shop-web-7", "shop/web", "10.0.0.7", port(0)),
		view("db", "db", "10.0.1.1"),
		view("v1", "shop/v1.api", "10.0.2.1"),
		view("shop-api-1", "shop/api", "10.0.3.1"),
		view("blog-api-1", "blog/api", "10.0.4.1"),
		view("down", "shop/down", "10.0.5.1", unready),
		view("my_job.1", "shop/Under_score", "::ffff:10.0.6.1"),
		view("host-1", "shop/host", "192.0.2.1", port(1)),
		view("host-2", "shop/host", "192.0.2.1", port(2)),
	}
}

func TestAnswers(t *testing.T) {
	s, _ := server(shop()...)
	for _, tt := range []struct{ question, want string }{
		{"web.shop.healthd. A", "10.0.0.1 10.0.0.2"},
		{"wEb.ShOp.HeAlThD. A", "10.0.0.1 10.0.0.2"},
		{"web.shop.healthd. AAAA", "fd00::5"},
		{"web.shop.healthd. SRV", "shop-web-1.web.shop.healthd.:8080 shop-web-2.web.shop.healthd.:8081 shop-web-5.web.shop.healthd.:8080 " +
			"+shop-web-1=10.0.0.1 +shop-web-2=10.0.0.2 +shop-web-5=fd00::5"},
		{"web.healthd. A", "10.0.0.1 10.0.0.2"},
		{"_http._tcp.web.shop.healthd. SRV", "shop-web-1.web.shop.healthd.:8080 shop-web-2.web.shop.healthd.:8081 shop-web-5.web.shop.healthd.:8080 " +
			"+shop-web-1=10.0.0.1 +shop-web-2=10.0.0.2 +shop-web-5=fd00::5"},
		{"_X-1._TCP.db.healthd. SRV", idOf("db")[:12] + ".db.healthd.:8080 +" + idOf("db")[:12] + "=10.0.1.1"},
		{"_http._tcp.web.shop.healthd. A", "+soa"},
		{"_tcp.web.shop.healthd. SRV", "+soa"},
		{"_http._udp.web.shop.healthd. SRV", "NXDOMAIN +soa"},
		{"_a_b._tcp.web.shop.healthd. SRV", "NXDOMAIN +soa"},
		{"__tcp.web.shop.healthd. SRV", "NXDOMAIN +soa"},
		{"_http._tcp.shop.healthd. SRV", "NXDOMAIN +soa"},
		{"_http._tcp.shop-web-1.web.shop.healthd. SRV", "NXDOMAIN +soa"},

		// Containers have names also when they are not ready.
		{"shop-web-1.web.shop.healthd. A", "10.0.0.1"},
		{"shop-web-4.web.shop.healthd. A", "10.0.0.4"},
		{"SHOP-web-3.web.shop.healthd. A", "10.0.0.3"},
		{"shop-web-5.web.shop.healthd. AAAA", "fd00::5"},
		{"shop-web-5.web.shop.healthd. A", "+soa"},
		{"shop-web-1.web.shop.healthd. SRV", "+soa"},
		{"shop-web-6.web.shop.healthd. A", "NXDOMAIN +soa"},
		{"shop-web-7.web.shop.healthd. A", "10.0.0.7"},
		{"shop-web-1.web.healthd. A", "NXDOMAIN +soa"},

		{"v1.api.shop.healthd. A", "10.0.2.1"},
		{"v1.api.healthd. A", "NXDOMAIN +soa"}, // it would be the one of v1 in the project api
		{"api.shop.healthd. A", "10.0.3.1"},
		{"api.healthd. A", "NXDOMAIN +soa (several services have that name: blog/api, shop/api)"},
		{"down.shop.healthd. A", "+soa"},
		{"under_score.shop.healthd. A", "10.0.6.1"},
		{"under_score.shop.healthd. SRV", idOf("my_job.1")[:12] + ".under_score.shop.healthd.:8080 +" + idOf("my_job.1")[:12] + "=10.0.6.1"},
		{"host.shop.healthd. A", "192.0.2.1"},
		{"host.shop.healthd. SRV", "host-1.host.shop.healthd.:1 host-2.host.shop.healthd.:2 +host-1=192.0.2.1 +host-2=192.0.2.1"},

		{"web.shop.healthd. TXT", "+soa"},
		{"web.shop.healthd. ANY", "hinfo=RFC8482"},
		{"shop.healthd. A", "+soa"}, // there are names below it
		{"blog.healthd. ANY", "hinfo=RFC8482"},
		{"nobody.shop.healthd. A", "NXDOMAIN +soa"},
		{"nobody.healthd. ANY", "NXDOMAIN +soa"},
		{`web\.shop.healthd. A`, "NXDOMAIN +soa"},
		{"healthd. SOA", "soa"},
		{"HEALTHD. NS", "ns=healthd."},
		{"healthd. A", "+soa"},
		{"web.shop.healthd. SOA", "+soa"},
		{"healthd. AXFR", "REFUSED not-ours (healthd does not transfer its zone)"},
		{"example.com. A", "REFUSED not-ours (healthd answers only for names in healthd.)"},
		{`shop\.healthd. A`, "REFUSED not-ours (healthd answers only for names in healthd.)"},
		{". NS", "REFUSED not-ours (healthd answers only for names in healthd.)"},
	} {
		m := question(tt.question, 1232)
		got := put(t, s, m, false)
		if text := line(got); text != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.question, text, tt.want)
		}
		if len(got.Question) != 1 || got.Question[0] != m.Question[0] || got.Id != m.Id || !got.RecursionDesired || got.RecursionAvailable {
			t.Errorf("%s: the answer begins with %v", tt.question, got)
		}
		for _, rr := range got.Answer {
			if rr.Header().Name != m.Question[0].Name {
				t.Errorf("%s is answered for %s", tt.question, rr.Header().Name)
			}
		}
	}
}

// Until all containers are known, a name that is not there may be. Then clients keep what they have.
func TestNotSynced(t *testing.T) {
	s := New(supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}, {Name: "containerd"}}, shop()...), &history{})
	for question, want := range map[string]string{
		"web.shop.healthd. A": "SERVFAIL not-ours (healthd does not know all containers yet)",
		"x.healthd. SRV":      "SERVFAIL not-ours (healthd does not know all containers yet)",
		"healthd. SOA":        "soa",
		"example.com. A":      "REFUSED not-ours (healthd answers only for names in healthd.)",
	} {
		if got := line(put(t, s, questionOf(question), false)); got != want {
			t.Errorf("%s: got %s, want %s", question, got, want)
		}
	}
}

// An engine that is away for long takes no name from the containers of others.
func TestEngineAway(t *testing.T) {
	runtimes := []supervisor.RuntimeView{{Name: "docker", Synced: true}, {Name: "containerd", Err: errors.New("no such socket")}}
	away := func(v *core.View) { v.Container.Runtime = "containerd" }
	s := New(supervisor.NewBoard(runtimes, append(shop(), view("shop-web-8", "shop/web", "10.0.9.1", away), view("shop-job-1", "shop/job", "10.0.9.2", away))...), &history{})
	const unknown = "SERVFAIL not-ours (healthd knows no container of that name, and cannot reach an engine)"
	for question, want := range map[string]string{
		"web.shop.healthd. A":            "10.0.0.1 10.0.0.2",
		"down.shop.healthd. A":           "+soa",
		"api.healthd. A":                 "NXDOMAIN +soa (several services have that name: blog/api, shop/api)",
		"job.shop.healthd. A":            unknown, // it is there, but not yet whole
		"shop-web-8.web.shop.healthd. A": unknown,
		"_x._tcp.job.shop.healthd. SRV":  unknown,
		"healthd. A":                     "+soa",
		"example.com. A":                 "REFUSED not-ours (healthd answers only for names in healthd.)",
	} {
		if got := line(put(t, s, questionOf(question), false)); got != want {
			t.Errorf("%s: got %s, want %s", question, got, want)
		}
	}
}

func questionOf(text string) *miekg.Msg { return question(text, 1232) }

// A query of another kind gets the code of what is wrong with it.
func TestOtherQueries(t *testing.T) {
	s, _ := server(shop()...)
	for _, tt := range []struct {
		name   string
		change func(*miekg.Msg)
		want   string
	}{
		{"another class", func(m *miekg.Msg) { m.Question[0].Qclass = miekg.ClassCHAOS }, "REFUSED not-ours"},
		{"every class", func(m *miekg.Msg) { m.Question[0].Qclass = miekg.ClassANY }, "REFUSED not-ours"},
		{"update", func(m *miekg.Msg) { m.Opcode = miekg.OpcodeUpdate }, "NOTIMP not-ours"},
		{"notify", func(m *miekg.Msg) { m.Opcode = miekg.OpcodeNotify }, "NOTIMP not-ours"},
		{"no question", func(m *miekg.Msg) { m.Question = nil }, "FORMERR not-ours"},
		{"two questions", func(m *miekg.Msg) { m.Question = append(m.Question, m.Question[0]) }, "FORMERR not-ours"},
		{"an answer in it", func(m *miekg.Msg) { m.Answer = []miekg.RR{soa(zone)} }, "FORMERR not-ours"},
		{"EDNS of later", func(m *miekg.Msg) { m.IsEdns0().SetVersion(1) }, "BADVERS not-ours"},
		{"EDNS twice", func(m *miekg.Msg) { m.SetEdns0(4096, false) }, "FORMERR not-ours"},
		{"IXFR", func(m *miekg.Msg) { m.SetIxfr(zone, 1, zone, "x.") }, "REFUSED not-ours (healthd does not transfer its zone)"},
		{"DNSSEC wanted", func(m *miekg.Msg) { m.IsEdns0().SetDo(); m.CheckingDisabled = true }, "10.0.0.1 10.0.0.2"},
		{"without EDNS", func(m *miekg.Msg) { m.Extra = nil }, "10.0.0.1 10.0.0.2"},
		{"without EDNS, and several", func(m *miekg.Msg) { m.SetQuestion("api.healthd.", miekg.TypeA); m.Extra = nil }, "NXDOMAIN +soa"},
	} {
		m := questionOf("web.shop.healthd. A")
		tt.change(m)
		got := put(t, s, m, false)
		// What is asked over IXFR may have no EDNS any more.
		if text := line(got); text != tt.want && (got.IsEdns0() != nil || !strings.HasPrefix(tt.want, text)) {
			t.Errorf("%s: got %s, want %s", tt.name, text, tt.want)
		}
		opt, asked := got.IsEdns0(), m.IsEdns0()
		if (opt != nil) != (asked != nil) && got.Rcode != miekg.RcodeFormatError && got.Rcode != miekg.RcodeNotImplemented {
			t.Errorf("%s: EDNS %v for %v", tt.name, opt, asked)
		}
		if opt != nil && (opt.Do() != asked.Do() || got.CheckingDisabled != m.CheckingDisabled) {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// Which names services have, and what is told of those that have none.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60) + "." + strings.Repeat("d", 8)
	for _, tt := range []struct {
		name  string
		views []*core.View
		asked string
		told  string // of the service or name that it is about, without what is always the same
	}{
		{"a label that is too long", []*core.View{view("a", "shop/"+strings.Repeat("a", 64), "10.0.0.1")}, "shop.healthd. A NXDOMAIN +soa",
			"DNS does not answer for the service shop/" + strings.Repeat("a", 64) + ": a name there has letters, digits, - and _, at most 63 between two dots and 200 in all"},
		{"the longest name", []*core.View{view("a", long, "10.0.0.1", owned)}, long + ".healthd. A 10.0.0.1", ""},
		{"its longest container", []*core.View{view(strings.Repeat("x", 63), long, "10.0.0.1", owned)}, idOf(strings.Repeat("x", 63))[:12] + "." + long + ".healthd. A 10.0.0.1", ""},
		{"a name that is too long", []*core.View{view("a", long+"d", "10.0.0.1", owned)}, "healthd. A +soa",
			"DNS does not answer for the service " + long + "d: a name there has letters, digits, - and _, at most 63 between two dots and 200 in all"},
		{"an empty label", []*core.View{view("a", "shop/a..b", "10.0.0.1")}, "shop.healthd. A NXDOMAIN +soa",
			"DNS does not answer for the service shop/a..b: a name there has letters, digits, - and _, at most 63 between two dots and 200 in all"},
		{"another project's name", []*core.View{view("a", "web.shop", "10.0.0.1"), view("b", "shop/web", "10.0.0.2")}, "web.shop.healthd. A 10.0.0.2",
			"DNS does not answer for the service web.shop: as in DNS its name is one of another project, it must be publish.service in a file"},
		{"a project with a dot", []*core.View{view("a", "x.shop/web", "10.0.0.1")}, "web.x.shop.healthd. A NXDOMAIN +soa",
			"DNS does not answer for the service x.shop/web: as in DNS its name is one of another project, it must be publish.service in a file"},
		{"a project in capitals", []*core.View{view("a", "SHOP/web", "10.0.0.1"), view("b", "shop/web", "10.0.0.2")}, "web.shop.healthd. A 10.0.0.2",
			"DNS does not answer for the service SHOP/web: as in DNS its name is one of another project, it must be publish.service in a file"},
		{"a file may", []*core.View{view("a", "web.shop", "10.0.0.1", owned)}, "web.shop.healthd. A 10.0.0.1", ""},
		{"two names that are one", []*core.View{view("a", "shop/Web", "10.0.0.1"), view("b", "shop/web", "10.0.0.2"), view("c", "shop/api", "10.0.0.3")},
			"web.shop.healthd. A NXDOMAIN +soa (several services have that name: shop/Web, shop/web)",
			"DNS answers nothing for web.shop.healthd: several services have that name: shop/Web, shop/web"},
		{"others are unharmed", []*core.View{view("a", "shop/Web", "10.0.0.1"), view("b", "shop/web", "10.0.0.2"), view("c", "shop/api", "10.0.0.3")},
			"api.shop.healthd. A 10.0.0.3", "DNS answers nothing for web.shop.healthd: several services have that name: shop/Web, shop/web"},
		{"a file decides", []*core.View{view("a", "web.shop", "10.0.0.1", owned), view("b", "shop/web", "10.0.0.2")}, "web.shop.healthd. A 10.0.0.1",
			"DNS does not answer for shop/web: a file gives the name web.shop.healthd to the service web.shop"},
		{"two files", []*core.View{view("a", "web.shop", "10.0.0.1", owned), view("b", "shop/web", "10.0.0.2", owned)},
			"web.shop.healthd. A NXDOMAIN +soa (several services have that name: shop/web, web.shop)",
			"DNS answers nothing for web.shop.healthd: several services have that name: shop/web, web.shop"},
		{"short for two", []*core.View{view("a", "web", "10.0.0.1"), view("b", "shop/web", "10.0.0.2")},
			"web.healthd. A NXDOMAIN +soa (several services have that name: shop/web, web)", "DNS answers nothing for web.healthd: several services have that name: shop/web, web"},
		{"short, and in a file", []*core.View{view("a", "web", "10.0.0.1", owned), view("b", "shop/web", "10.0.0.2")}, "web.healthd. A 10.0.0.1", ""},
		{"short for what has no name", []*core.View{view("a", "web.shop", "10.0.0.1", owned), view("b", "shop/web", "10.0.0.2")},
			"web.healthd. A NXDOMAIN +soa (another service has the whole name of shop/web)", "DNS does not answer for shop/web: a file gives the name web.shop.healthd to the service web.shop"},
		{"short, and a project", []*core.View{view("a", "a/web", "10.0.0.1"), view("b", "b/web", "10.0.0.2"), view("c", "web/x", "10.0.0.3")},
			"web.healthd. A +soa (several services have that name: a/web, b/web)", ""},
		{"a container is called as a service", []*core.View{view("v1", "shop/api", "10.0.0.1"), view("a", "shop/v1.api", "10.0.0.2")}, "v1.api.shop.healthd. A 10.0.0.2", ""},
		{"it has another name", []*core.View{view("v1", "shop/api", "10.0.0.1"), view("a", "shop/v1.api", "10.0.0.2")}, idOf("v1")[:12] + ".api.shop.healthd. A 10.0.0.1", ""},
		{"a container is called as a service of others, which is away", []*core.View{view("web", "shop", "10.0.0.1"), view("a", "shop/api", "10.0.0.2")}, "web.shop.healthd. A NXDOMAIN +soa", ""},
		{"it has another name", []*core.View{view("web", "shop", "10.0.0.1")}, "shop.healthd. SRV " + idOf("web")[:12] + ".shop.healthd.:8080 +" + idOf("web")[:12] + "=10.0.0.1", ""},
		{"a file may call it so", []*core.View{view("web", "shop", "10.0.0.1", owned)}, "web.shop.healthd. A 10.0.0.1", ""},
		{"containers in capitals", []*core.View{view("WEB", "shop/web", "10.0.0.1"), view("web", "shop/web", "10.0.0.2")}, "web.web.shop.healthd. A 10.0.0.1", ""},
		{"of two engines", []*core.View{view("web", "shop/web", "10.0.0.1", engine("docker")), view("web", "shop/web", "10.0.0.2", engine("containerd"))},
			idOf("docker")[:12] + ".web.shop.healthd. A 10.0.0.1", ""},
		{"IDs that begin in the same way", []*core.View{view("a.1", "shop/web", "10.0.0.1", id("0123456789abcdef")), view("a.2", "shop/web", "10.0.0.2", id("0123456789abdcef"))},
			"c" + idOf("0123456789abdcef")[:16] + ".web.shop.healthd. A 10.0.0.2", ""},
		{"an address with a zone", []*core.View{view("a", "shop/web", "fe80::1%eth0")}, "web.shop.healthd. AAAA +soa", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := server(tt.views...)
			words := strings.SplitN(tt.asked, " ", 3)
			got := line(put(t, s, question(words[0]+" "+words[1], 1232), true))
			if got != words[2] {
				t.Errorf("%s %s: got %s, want %s", words[0], words[1], got, words[2])
			}
			want := []string{}
			if tt.told != "" {
				want = append(want, EventError+": "+tt.told)
			}
			if told := s.journal.(*history).texts(); strings.Join(told, "\n") != strings.Join(want, "\n") {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func id(id string) func(*core.View) { return func(v *core.View) { v.Container.ID = id } }

func engine(name string) func(*core.View) {
	return func(v *core.View) { v.Container.Runtime, v.Container.ID = name, idOf(name) }
}
