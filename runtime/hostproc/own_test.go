package hostproc

import (
	"strings"
	"testing"
)

func TestOwnContainer(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, tt := range []struct{ name, cgroup, mounts, want string }{
		{"host", "0::/system.slice/healthd.service\n", "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
			"61 30 0:40 / /var/lib/docker/containers/" + a + "/mounts/shm rw - tmpfs shm rw\n", ""},
		{"cgroup v1", "9:name=systemd:/docker/" + a + "\n8:pids:/docker/" + a + "\n", "", a},
		{"cgroup v2, systemd", "0::/system.slice/docker-" + a + ".scope\n", "", a},
		{"Podman", "0::/machine.slice/libpod-" + a + ".scope/container\n", "", a},
		{"engine in a container", "0::/docker/" + b + "/docker/" + a + "\n", "", a},
		{"cgroup namespace", "0::/\n", "70 60 8:1 /var/lib/docker/containers/" + a + "/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw\n", a},
		{"Podman in a cgroup namespace", "0::/\n", "70 60 0:25 /containers/storage/overlay-containers/" + a + "/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw\n", a},
		{"nerdctl", "0::/\n", "70 60 8:1 /var/lib/nerdctl/1935db59/containers/default/" + a + "/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw\n", a},
		{"no ID", "0::/docker/abc\n", "70 60 8:1 /etc/hosts /etc/hosts rw - ext4 /dev/sda1 rw\nshort\n", ""},
	} {
		if got := ownContainer(tt.cgroup, strings.NewReader(tt.mounts)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
