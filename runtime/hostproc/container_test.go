package hostproc

import (
	"strings"
	"testing"
)

func TestHasContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string]bool{
		"0::/system.slice/docker-" + id + ".scope\n":                    true,
		"0::/docker/" + id + "\n":                                       true,
		"12:cpu:/machine.slice/libpod-" + id + ".scope/container\n":     true,
		"1:name=systemd:/\n0::/kubepods/besteffort/pod1/" + id + "/x\n": true,
		"0::/system.slice/nginx.service\n":                              false,
		"0::/docker/" + id[:12] + "\n":                                  false,
		"0::/user.slice/" + id + "0\n":                                  false,
		"":                                                              false,
	} {
		if got := hasContainer(cgroup, IsFullID); got != want {
			t.Errorf("%q: any %v", cgroup, got)
		}
		if got := hasContainer(cgroup, func(of string) bool { return of == id }); got != want {
			t.Errorf("%q: that %v", cgroup, got)
		}
		if hasContainer(cgroup, func(of string) bool { return of == "f"+id[1:] }) {
			t.Errorf("%q: another", cgroup)
		}
	}
}
