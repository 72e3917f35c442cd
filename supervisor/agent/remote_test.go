package agent

import (
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// A container of another host is answered for as one of this host.
func TestAnswersForOtherHosts(t *testing.T) {
	b := board()
	of := func(name string, change func(*supervisor.Member)) supervisor.Member {
		m := supervisor.Member{Host: "h2", Container: name, ID: "h2/" + name, Service: "shop/web"}
		change(&m)
		return m
	}
	b.ShowRemote([]supervisor.Member{
		of("ready", func(m *supervisor.Member) { m.Ready = true }),
		of("failing", func(m *supervisor.Member) { m.Reason = core.NotReadyReadiness }),
		of("odd", func(m *supervisor.Member) { m.Reason = "up 100%\nup 100%" }),
		of("silent", func(*supervisor.Member) {}),
		of("draining", func(m *supervisor.Member) {
			m.Reason, m.Draining, m.DrainingReady = core.NotReadyDraining, true, true
		}),
		of("hung", func(m *supervisor.Member) { m.Reason, m.Draining = core.NotReadyDraining, true }),
	}, nil)
	for name, want := range map[string]string{
		"h2:ready": up, "shop/web/h2:ready": up, "web/h2:ready": up, "blog/web/h2:ready": "down # OtherService\n", "h3:ready": "down # UnknownContainer\n",
		"web/h2:failing": "down # ReadinessFailed\n", "web/h2:odd": "down # up 100%?up 100%\n", "web/h2:silent": "down # NotReady\n",
		"web/h2:draining": draining, "web/h2:hung": "down # Draining\n", "web/ready": up,
	} {
		if got := reply(b, unsticky, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Until the members of other hosts are known, the servers of those keep their state. This host's do not wait for them.
func TestNoAnswerBeforeFleetIsKnown(t *testing.T) {
	b := supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}})
	b.ExpectRemote()
	for _, tt := range []struct{ known, here, there string }{
		{"no", "down # UnknownContainer\n", ""}, {"yes", "down # UnknownContainer\n", "down # UnknownContainer\n"},
	} {
		if tt.known == "yes" {
			b.RemoteKnown()
		}
		if got := reply(b, unsticky, "web/gone"); got != tt.here {
			t.Errorf("known: %s: of this host %q, want %q", tt.known, got, tt.here)
		}
		for _, name := range []string{"h2:gone", "shop/web/h2:gone"} {
			if got := reply(b, unsticky, name); got != tt.there {
				t.Errorf("known: %s: %s: %q, want %q", tt.known, name, got, tt.there)
			}
		}
	}
}
