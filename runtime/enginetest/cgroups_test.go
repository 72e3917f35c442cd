package enginetest

import (
	"slices"
	"testing"
)

func TestUnmountedCgroups(t *testing.T) {
	const cgroup = "12:net_cls,net_prio:/\n10:perf_event:/\n9:name=systemd:/\n4:memory:/a\n3:cpu,cpuacct:/\n0::/\n"
	const mountinfo = "31 25 0:27 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n" +
		"32 31 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n" +
		"33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 31 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup rw\n"
	if got, want := unmounted(cgroup, mountinfo), []string{"net_cls,net_prio", "perf_event"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := unmounted("0::/user.slice\n", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"); got != nil {
		t.Errorf("with version 2: got %v", got)
	}
}
