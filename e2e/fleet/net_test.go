package fleet

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"healthd/runtime/enginetest"
)

// segment is a private network whose hosts are network namespaces. The test itself reaches all of them.
type segment struct {
	t      *testing.T
	bridge string
	prefix string // of addresses: "10.213.7."
}

// newSegment makes a network that is removed at the end of the test.
func newSegment(t *testing.T) *segment {
	t.Helper()
	n, err := enginetest.ClaimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := enginetest.RemoveBridge(n.Bridge); err != nil {
			t.Error(err)
		}
	})
	return &segment{t: t, bridge: n.Bridge, prefix: n.Prefix + "."}
}

func (s *segment) address(number int) string { return fmt.Sprint(s.prefix, number) }

// netns makes a host with that number as the end of its address. It is removed at the end of the test.
func (s *segment) netns(name string, number int) string {
	s.t.Helper()
	ns, port := s.bridge+"-"+name, fmt.Sprintf("%s-%d", s.bridge, number)
	s.ip("netns", "add", ns)
	s.t.Cleanup(func() { s.ip("netns", "del", ns) })
	s.ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns)
	s.ip("link", "set", port, "master", s.bridge, "up")
	s.ip("-n", ns, "addr", "add", s.address(number)+"/25", "dev", "eth0")
	s.ip("-n", ns, "link", "set", "lo", "up")
	s.ip("-n", ns, "link", "set", "eth0", "up")
	return ns
}

// cut has a host's packets to these addresses vanish, so that nobody there gets an answer. It returns what undoes that.
func (s *segment) cut(ns string, addresses ...string) (mend func()) {
	s.t.Helper()
	for _, a := range addresses {
		s.ip("-n", ns, "route", "add", "blackhole", a+"/32")
	}
	return func() {
		s.t.Helper()
		for _, a := range addresses {
			s.ip("-n", ns, "route", "del", "blackhole", a+"/32")
		}
	}
}

// inNetns returns the arguments that run a program on a host.
func inNetns(ns string, argv ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + ns, "--"}, argv...)
}

func (s *segment) ip(args ...string) {
	s.t.Helper()
	if err := s.try(args...); err != nil {
		s.t.Error(err)
	}
}

func (s *segment) try(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
