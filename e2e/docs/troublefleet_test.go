package docs

import (
	"healthd/e2e/ports"

	"fmt"
	"strings"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/fleet/etcdtest"
)

// fleetTroubles are those of many hosts.
var fleetTroubles = []trouble{
	{"etcd cannot be reached", "", func(s *stage) {
		s.joined("h1", "http://"+ports.Address(s.t), "").Start()
	}},
	{"A host of the fleet is lost", "", func(s *stage) {
		c := s.etcd()
		other := s.joined("h2", c.Endpoints[0], "")
		harness.StartedDaemon(other)
		harness.StartedDaemon(s.joined("h1", c.Endpoints[0], ""))
		s.sees("h2", "live")
		if err := other.Stop(); err != nil { // its members are kept, as nobody knows that it does not come back
			s.t.Fatal(err)
		}
	}},
	{"Two hosts of the fleet have one name", "", func(s *stage) {
		c := s.etcd()
		other := harness.StartedDaemon(s.joined("h1", c.Endpoints[0], ""))
		other.Eventually("be in the fleet", func() error {
			if text, code := other.Run("status", "--fleet", "-o", "json"); code != 0 || !strings.Contains(text, `"connected": true`) {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
		harness.StartedDaemon(s.joined("h1", c.Endpoints[0], ""))
	}},
	{"Other hosts send nothing to a container", "", func(s *stage) {
		harness.StartedDaemon(s.joined("h1", s.etcd().Endpoints[0], service("map", readyz+"\npublish = { port = 8080 }")))
		s.compose("map", dockertest.RunOptions{})
		s.becomes("shop-map-1", "ready", harness.Ready)
	}},
}

func (s *stage) etcd() *etcdtest.Cluster {
	s.t.Helper()
	return etcdtest.New(s.t, etcdtest.Options{Members: 1})
}

// joined gives the trouble a daemon of its own in a fleet, which does not run yet.
func (s *stage) joined(host, endpoint, specs string) *harness.Daemon {
	s.t.Helper()
	s.replaced = append(s.replaced, strings.TrimPrefix(endpoint, "http://"), "10.0.0.1:2379")
	number := strings.TrimPrefix(host, "h")
	return s.own(fmt.Sprintf("[fleet]\nendpoints = [%q]\nhost = %q\nadvertise = \"10.0.0.1%s\"\nttl = \"5s\"\n%s", endpoint, host, number, specs))
}

// sees waits until the daemon shows a host in that state.
func (s *stage) sees(host, state string) {
	s.t.Helper()
	s.d.Eventually("show "+host+" as "+state, func() error {
		text, _ := s.d.Run("status", "--fleet", "--no-headers", host)
		if words := strings.Fields(text); len(words) < 2 || words[0] != host || words[1] != state {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}
