package haproxy

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"

	"healthd/e2e/patience"
	"healthd/e2e/ports"
	"healthd/runtime"
)

func TestTables(t *testing.T) {
	t.Parallel()
	const text = "# table: web, type: ip, size:1024, used:0\n# table: peers/t1, type: string, size:1048576, used:17\n" +
		"# table: a;b, type: ip, size:1, used:0\n\n# other\n"
	if got := tables(text); !slices.Equal(got, []string{"web", "peers/t1"}) {
		t.Errorf("got %q", got)
	}
}

// At weight 0, clients that stick to a server go on to get it.
func TestDrainCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		want            want
		sticky, agentUp bool
		weight          int
		commands        string
	}{
		{"a drain", wantDrain, false, true, 100, "weight 0%"},
		{"a drain under way", wantDrain, false, true, 0, ""},
		{"where clients stick", wantDrain, true, true, 100, "agent down"},
		{"where clients stick, at weight 0 by another daemon", wantDrain, true, true, 0, "agent down"},
		{"where clients stick, under way", wantDrain, true, false, 100, ""},
		{"where clients stick, over", wantUp, true, false, 100, "agent up"},
		{"where clients stick, not ready", wantDown, true, true, 100, "agent down"},
	} {
		s := &server{name: "c1", agentState: checkConfigured | checkEnabled, agentAddress: agentAddress{"127.0.0.1", 18647},
			agentUp: tt.agentUp, weight: tt.weight, initialWeight: 100}
		p := planFor("web", []*server{s}, nil, 0)
		p.sticky = tt.sticky
		p.applyWant(s, &member{name: "c1", want: tt.want})
		var got []string
		for _, c := range p.commands {
			got = append(got, strings.TrimPrefix(c.text, "set server web/c1 "))
		}
		if strings.Join(got, "; ") != tt.commands {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.commands)
		}
	}
}

// While a server drains to which clients stick, they go to another one. What is under way goes on, and ends the drain.
func TestDrainWithStickyClients(t *testing.T) {
	t.Parallel()
	const check = "agent-check agent-addr 127.0.0.1 agent-port 9 weight 100\n"
	const servers = "  server c1 127.0.0.1:%d " + check + "  server c2 127.0.0.1:%d " + check
	const table = "  stick-table type ip size 1k"
	for name, tt := range map[string]struct {
		settings, servers string // %d are the ports
		sticky            bool
	}{
		"cookie": {"  cookie SRV insert indirect nocache\n", strings.ReplaceAll(strings.Replace(servers, "%d ", "%d cookie c1 ", 1),
			"c2 127.0.0.1:%d ", "c2 127.0.0.1:%d cookie c2 "), true},
		"dynamic cookie":      {"  cookie SRV insert dynamic\n  dynamic-cookie-key k\n", servers, true},
		"table":               {table + "\n  stick on src\n", servers, true},
		"another one's table": {"  stick on src table shared\n", servers + "backend shared\n" + table + "\n", true},
		"a table that counts": {table + " store http_req_cnt\n  http-request track-sc0 src\n", servers, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := ports.Free(t)
			slow, letGo := application(t)
			other, _ := application(t)
			b := startBalancer(t, "backend web\n"+tt.settings+fmt.Sprintf(tt.servers, slow, other)+
				frontend(front)+"  http-response set-header X-Server %[srv_name]\n")
			b.ports["A"], b.ports["B"] = slow, other
			e := b.startPushing()
			e.set("c1", "A", "up")
			b.waitForServers("web", "c1 A no check 100", "c2 B no check 100")
			client := stickTo(t, b, front)
			answered := make(chan error, 1)
			go func() { answered <- client.get("/slow", "c1") }()
			patience.Until(t, "the request is under way", func() error { return b.sessions("c1", 1) })
			e.set("c1", "A", "stopping")
			if !tt.sticky {
				b.waitForServers("web", "c1 A no check 0", "c2 B no check 100")
				close(letGo)
				if err := <-answered; err != nil {
					t.Error(err)
				}
				return
			}
			b.waitForServers("web", "c1 A DOWN (agent) 100", "c2 B no check 100")
			if !e.h.Sticky("web") || e.h.Sticky("other") {
				t.Error("its agent does not know that clients stick")
			}
			for range 20 {
				if err := client.get("/", "c2"); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.sessions("c1", 1); err != nil {
				t.Error(err)
			}
			if runs := e.drainedRuns(); len(runs) > 0 {
				t.Fatalf("%v is said to be drained while a request is under way", runs)
			}
			close(letGo)
			if err := <-answered; err != nil {
				t.Error(err)
			}
			patience.Until(t, "it is drained", func() error {
				if got := e.drainedRuns(); !slices.Contains(got, runtime.Run{ID: "id-c1", Started: 1}) {
					return fmt.Errorf("drained: %v", got)
				}
				return nil
			})
			e.set("c1", "A", "up")
			b.waitForServers("web", "c1 A no check 100", "c2 B no check 100")
			e.noErrors()
		})
	}
}

// stickyClient keeps its cookies, and asks the frontend.
type stickyClient struct {
	http.Client
	url string
}

// stickTo returns a client that sticks to server c1.
func stickTo(t *testing.T, b *balancer, front int) *stickyClient {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &stickyClient{http.Client{Jar: jar}, fmt.Sprintf("http://127.0.0.1:%d", front)}
	b.runCommand("set server web/c2 state maint")
	if err := c.get("/", "c1"); err != nil {
		t.Fatal(err)
	}
	b.runCommand("set server web/c2 state ready")
	return c
}

// get fails unless that server answers.
func (c *stickyClient) get(path, server string) error {
	response, err := c.Get(c.url + path)
	if err != nil {
		return err
	}
	response.Body.Close()
	if got := response.Header.Get("X-Server"); got != server || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s from %q, want it from %s", response.Status, got, server)
	}
	return nil
}
