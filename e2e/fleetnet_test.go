package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// segment is a private network whose hosts are network namespaces. The test itself reaches all of them.
type segment struct {
	t      *testing.T
	bridge string
	prefix string // of addresses: "10.214.7."
}

// newSegment makes a network that is removed at the end of the test. Its name stands for its addresses: no other test binary
// can have the same ones.
func newSegment(t *testing.T) *segment {
	t.Helper()
	const most = 256
	var last error
	for i := range most {
		number := (os.Getpid() + i) % most
		s := &segment{t: t, bridge: fmt.Sprintf("hdf%d", number), prefix: fmt.Sprintf("10.214.%d.", number)}
		if last = s.try("link", "add", s.bridge, "type", "bridge"); last != nil {
			continue
		}
		t.Cleanup(func() { s.ip("link", "del", s.bridge) })
		s.ip("addr", "add", s.address(1)+"/24", "dev", s.bridge)
		s.ip("link", "set", s.bridge, "up")
		return s
	}
	t.Fatalf("cannot find a free network: %v", last)
	return nil
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
	s.ip("-n", ns, "addr", "add", s.address(number)+"/24", "dev", "eth0")
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
