package docker

import (
	"strings"
	"testing"
)

func TestIsolation(t *testing.T) {
	const icc = "com.docker.network.bridge.enable_icc"
	for _, tt := range []struct {
		option, value, want string
	}{
		{icc, "false", "(icc=false)"},
		{icc, "0", "(icc=false)"}, // Docker reads it so, and keeps what was written
		{icc, "F", "(icc=false)"},
		{icc, "True", ""},
		{icc, "", ""},
		{"macvlan_mode", "private", "(macvlan_mode=private)"},
		{"macvlan_mode", "bridge", ""},
		{"com.docker.network.bridge.enable_ip_masquerade", "false", ""},
	} {
		if why := isolation("n", map[string]string{tt.option: tt.value}); !strings.HasSuffix(why, tt.want) || (why == "") != (tt.want == "") {
			t.Errorf("%s=%s: %q", tt.option, tt.value, why)
		}
	}
}
