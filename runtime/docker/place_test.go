package docker

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"healthd/runtime"
)

// An address means something only where the engine is. What a proxy's network is says nothing.
func TestPlaceBehind(t *testing.T) {
	const here, rootless, away = "", "rootless", "another network namespace"
	for _, tt := range []struct {
		name        string
		program     string
		sameNetwork bool
		rootless    bool
		want        string
	}{
		{"Docker", "dockerd", true, false, here},
		{"Docker whose socket systemd made", "systemd", true, false, here},
		{"Docker behind a proxy in a container", "haproxy", false, false, here},
		{"Docker that healthd may not look at", "", false, false, here},
		{"Docker in a network namespace", "dockerd", false, false, away},
		{"rootless Docker", "dockerd", false, true, rootless},
		{"rootless Docker that healthd may not look at", "", false, true, rootless},
		{"rootless Docker behind a proxy", "haproxy", true, true, rootless},
		{"rootless Docker beside healthd in its network", "dockerd", true, true, here},
		{"Podman", "podman", true, false, here},
		{"Podman in a network namespace", "podman", false, false, away},
		{"rootless Podman, whose containers alone have another network", "podman", true, true, rootless},
		{"rootless Podman whose socket systemd made", "systemd", true, true, rootless},
	} {
		got := placeBehind(tt.program, tt.sameNetwork, tt.rootless)
		if got.SameHostNetwork != strings.HasPrefix(tt.name, "rootless Podman") {
			t.Errorf("%s: its host's network is healthd's: %v", tt.name, got.SameHostNetwork)
		}
		if !strings.Contains(got.Elsewhere, tt.want) || (tt.want == here) != (got == runtime.Place{}) || got.At.IsValid() != (tt.want == rootless) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestPlace(t *testing.T) {
	for info, want := range map[string]bool{
		`{"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}`: true,
		`{"SecurityOptions":["name=seccomp,profile=builtin"]}`:                 false,
		``: false, // a proxy forbids it
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/_ping":
				w.Header().Set("Api-Version", "1.44")
			case info == "":
				w.WriteHeader(http.StatusForbidden)
			default:
				_, _ = w.Write([]byte(info))
			}
		}))
		t.Cleanup(server.Close)
		e, err := New(Config{Endpoint: strings.Replace(server.URL, "http", "tcp", 1)})
		if err != nil {
			t.Fatal(err)
		}
		if got, sure := e.Place(t.Context()); !sure || (got.Elsewhere != "") != want || want && got.At != loopback {
			t.Errorf("%s: %+v", info, got)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for endpoint, at := range map[string]string{
		"tcp://192.0.2.7:2375":       "192.0.2.7",
		"https://[2001:db8::7]:2376": "2001:db8::7",
		"tcp://engine.invalid:2375":  "",
	} {
		e, err := New(Config{Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := netip.ParseAddr(at)
		if got, sure := e.Place(t.Context()); got.At != want || sure != want.IsValid() || !strings.Contains(got.Elsewhere, endpoint) {
			t.Errorf("%s: %+v", endpoint, got)
		}
	}
}

// The name in a certificate may be another one than the host's own.
func TestOtherNamesOfThisHost(t *testing.T) {
	for _, tt := range []struct {
		all []string
		at  string
		own bool
	}{
		{nil, "", false},
		{[]string{"192.0.2.7"}, "192.0.2.7", false},
		{[]string{"127.0.1.1"}, "127.0.1.1", true},
		{[]string{"::ffff:192.0.2.7", "::1"}, "192.0.2.7", true},
	} {
		var all []netip.Addr
		for _, text := range tt.all {
			all = append(all, netip.MustParseAddr(text))
		}
		want, _ := netip.ParseAddr(tt.at)
		if at, own := addressAmong(all); at != want || own != tt.own {
			t.Errorf("%v: %v %v", tt.all, at, own)
		}
	}
}
