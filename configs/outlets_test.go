package configs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The drain of a spec lasts as long as the balancers of its outlets need, unless it says itself how long.
func TestDrainForOutlets(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\nmatch = { a = \"b\" }\n"
	const nginx = "[[publish_file]]\ntemplate = \"nginx\"\npath = \"/etc/nginx/healthd.conf\"\nreload = [\"nginx\", \"-s\", \"reload\"]\n"
	for _, tt := range []struct {
		name, text string
		want       string // drain, least drain, what explain shows
	}{
		{"no outlet", spec + "publish.port = 80", `0s 0s "0s" default`},
		{"Traefik", "[traefik]\n" + spec + "publish.port = 80", `7.5s 7.5s "7.5s" [traefik] at healthd.toml:1`},
		{"Traefik asks often", "[traefik]\ndrain = \"1.1s\"\n" + spec + "publish.port = 80", `1.1s 1.1s "1.1s" [traefik] at healthd.toml:1`},
		{"no traffic", "[traefik]\n" + spec, `0s 0s "0s" default`},
		{"its own, longer", "[traefik]\n" + spec + "publish = { port = 80, drain = \"20s\" }", `20s 7.5s "20s" healthd.toml:5`},
		{"its own, shorter", "[traefik]\n" + spec + "publish = { port = 80, drain = \"1s\" }", `1s 1s "1s" healthd.toml:5`},
		{"HAProxy, too", "[traefik]\n[haproxy]\nsockets = [\"/run/a.sock\"]\n" + spec + "publish = { port = 80, haproxy.backend = \"web\" }",
			`7.5s 7.5s "7.5s" [traefik] at healthd.toml:1`},
		{"nginx", nginx + spec + "publish.port = 80", `1s 1s "1s" [[publish_file]] at healthd.toml:2`},
		{"nginx without the service", nginx + "services = [\"other\"]\n" + spec + "publish.port = 80", `0s 0s "0s" default`},
		{"Prometheus", "[[publish_file]]\ntemplate = \"prometheus\"\npath = \"/etc/prometheus/healthd.json\"\n" + spec + "publish.port = 80", `0s 0s "0s" default`},
		{"DNS", "listen.dns = \"127.0.0.1:8653\"\n" + spec + "publish.port = 80", `3s 3s "3s" listen.dns at healthd.toml:1`},
		{"DNS, asked each minute", "listen.dns = \"127.0.0.1:8653\"\ndns.drain = \"61s\"\n" + spec + "publish.port = 80", `1m1s 1m1s "1m1s" listen.dns at healthd.toml:1`},
		{"other hosts", fleetText + spec + "publish.port = 80", `3s 0s "3s" [fleet] at healthd.toml:1`},
		{"other hosts, slow", strings.Replace(fleetText, "adv", "drain = \"5s\", adv", 1) + spec + "publish.port = 80", `5s 0s "5s" [fleet] at healthd.toml:1`},
		{"other hosts and their HAProxy", fleetText + "[haproxy]\nsockets = [\"/run/a.sock\"]\n" + spec + "publish = { port = 80, haproxy.backend = \"web\" }", `1s 0s "1s" default`},
		{"other hosts and Traefik", fleetText + "[traefik]\n" + spec + "publish.port = 80", `7.5s 7.5s "7.5s" [traefik] at healthd.toml:2`},
		{"other hosts longer than DNS", fleetText + "listen.dns = \"127.0.0.1:8653\"\ndns.drain = \"1s\"\n" + spec + "publish.port = 80", `3s 1s "3s" [fleet] at healthd.toml:1`},
		{"other hosts, HAProxy and DNS", fleetText + "listen.dns = \"127.0.0.1:8653\"\ndns.drain = \"2s\"\n[haproxy]\nsockets = [\"/run/a.sock\"]\n" + spec +
			"publish = { port = 80, haproxy.backend = \"web\" }", `2s 2s "2s" listen.dns at healthd.toml:2`},
		{"other hosts, no traffic", fleetText + spec, `0s 0s "0s" default`},
		{"two", "[traefik]\n" + nginx + spec + "publish.port = 80", `7.5s 7.5s "7.5s" [traefik] at healthd.toml:1`},
		{"HAProxy alone", "[haproxy]\nsockets = [\"/run/a.sock\"]\n" + spec + "publish = { port = 80, haproxy.backend = \"web\" }", `1s 0s "1s" default`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			s, err := c.Resolve(runtime.Traits{Name: "web-1", Labels: map[string]string{"a": "b"}})
			if err != nil {
				t.Fatal(err)
			}
			shown := shownIn(s, "publish.drain")
			if got := fmt.Sprint(s.Publish.Drain, " ", s.Publish.LeastDrain, " ", shown.Value, " ", shown.Origin); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			within := time.Duration(0)
			switch {
			case strings.Contains(tt.text, "nginx") && !strings.Contains(tt.text, "other"):
				within = 21 * time.Second
			case strings.Contains(tt.text, "fleet") && s.Publish.Port != 0:
				within = 3 * time.Second
			}
			if got := s.Publish.WithdrawWithin; got != within {
				t.Errorf("it waits %v until load balancers know, want %v", got, within)
			}
		})
	}
}

// A daemon goes on answering DNS queries after a reload that takes listen.dns away.
func TestDrainAfterReload(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\nmatch_name = \"web\"\npublish.port = 80\n"
	const dns = "listen.dns = \"127.0.0.1:8653\"\n"
	for _, tt := range []struct{ name, begun, next, want string }{
		{"it stays", dns, dns, `3s 3s "3s" listen.dns at healthd.toml:1`},
		{"it goes", dns, "", `3s 3s "3s" listen.dns before the reload`},
		{"it goes with its drain", dns + "dns.drain = \"61s\"\n", "", `1m1s 1m1s "1m1s" listen.dns before the reload`},
		{"it goes, and Traefik needs longer", dns, "traefik.drain = \"4s\"\n", `4s 4s "4s" [traefik] at healthd.toml:1`},
		{"it comes", "", dns, `3s 3s "3s" listen.dns at healthd.toml:1`},
		{"it was never there", "", "", `0s 0s "0s" default`},
	} {
		next := mustParse(t, tt.next+spec)
		next.KeepDrains(mustParse(t, tt.begun+spec))
		s, err := next.Resolve(runtime.Traits{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		shown := shownIn(s, "publish.drain")
		if got := fmt.Sprint(s.Publish.Drain, " ", s.Publish.LeastDrain, " ", shown.Value, " ", shown.Origin); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A daemon tells other hosts as it began until it ends, whatever a reload makes of [fleet].
func TestDrainAfterReloadOfFleet(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\nmatch_name = \"web\"\npublish.port = 80\n"
	slow := strings.Replace(fleetText, "adv", "drain = \"5s\", adv", 1)
	for _, tt := range []struct{ name, begun, next, want string }{
		{"it stays", fleetText, fleetText, `3s 0s 3s "3s" [fleet] at healthd.toml:1`},
		{"it moves", fleetText, "\n" + fleetText, `3s 0s 3s "3s" [fleet] at healthd.toml:2`},
		{"it goes", fleetText, "", `3s 0s 3s "3s" [fleet] before the reload`},
		{"it gets another drain", slow, fleetText, `5s 0s 3s "5s" [fleet] before the reload`},
		{"it goes, and Traefik needs longer", fleetText, "traefik.drain = \"4s\"\n", `4s 4s 3s "4s" [traefik] at healthd.toml:1`},
		{"it comes", "", fleetText, `0s 0s 0s "0s" default`},
		{"it was never there", "", "", `0s 0s 0s "0s" default`},
	} {
		next := mustParse(t, tt.next+spec)
		next.KeepDrains(mustParse(t, tt.begun+spec))
		s, err := next.Resolve(runtime.Traits{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		shown := shownIn(s, "publish.drain")
		if got := fmt.Sprint(s.Publish.Drain, " ", s.Publish.LeastDrain, " ", s.Publish.WithdrawWithin, " ", shown.Value, " ", shown.Origin); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDrainTooShortForOutlets(t *testing.T) {
	const want = "healthd.toml:5: spec[web].publish.drain: is 2s: load balancers may send requests to a stopped container: [traefik] at healthd.toml:1 needs 7.5s"
	text := "[traefik]\n[[spec]]\nname = \"web\"\nmatch = { a = \"b\" }\npublish = { port = 80, drain = \"%v\" }\nreadiness.tcp_socket.port = 80\n"
	if got := mustParse(t, fmt.Sprintf(text, 2*time.Second)).Warnings(); !slices.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := mustParse(t, fmt.Sprintf(text, 8*time.Second)).Warnings(); len(got) > 0 {
		t.Errorf("warns of a drain that is long enough: %q", got)
	}
	if got := mustParse(t, strings.Replace(text, `, drain = "%v"`, "", 1)).Warnings(); len(got) > 0 {
		t.Errorf("warns of a drain that nobody has set: %q", got)
	}
}

// shownIn returns what explain shows of a setting.
func shownIn(s *core.Spec, path string) core.Value {
	all := s.Settings()
	return all[slices.IndexFunc(all, func(v core.Value) bool { return v.Path == path })]
}
