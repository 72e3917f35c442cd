package main

import (
	"strings"
	"testing"
	"time"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// 127.0.0.1 of the host is no address for those who ask from a container.
func TestWarningOfLoopbackAddresses(t *testing.T) {
	view := func(name, address, hostIP string, port int) *core.View {
		return &core.View{
			Container: &runtime.Container{
				ID: name, Name: name, State: runtime.Running, Address: address, HostNetwork: address == "127.0.0.1",
			},
			Spec: &core.Spec{Publish: core.Publish{Port: port, HostIP: hostIP}}, State: core.State{Kept: &core.Kept{}},
		}
	}
	board := supervisor.NewBoard(nil, view("host-2", "127.0.0.1", "", 80), view("host-1", "127.0.0.1", "", 80),
		view("named", "127.0.0.1", "10.0.0.5", 80), view("bridge", "172.17.0.2", "", 80), view("unpublished", "127.0.0.1", "", 0))
	for _, tt := range []struct {
		name, listen string
		traefik      bool
		want         string
	}{
		{"nobody asks", "", true, ""},
		{"DNS for the host", `dns = "127.0.0.1:8653"`, false, ""},
		{"DNS for containers", `dns = "172.17.0.1:8653"`, false, "(DNS) of host-1, host-2, on"},
		{"a page for all", `http = "0.0.0.0:8646"`, false, ""},
		{"Traefik in a container", `http = "172.17.0.1:8646"`, true, "(Traefik) of host-1, host-2, on"},
	} {
		c, err := configs.Parse("healthd.toml", []byte("[listen]\n"+tt.listen))
		if err != nil {
			t.Fatal(err)
		}
		d, now := &daemon{begun: c}, time.Now()
		if tt.traefik {
			d.traefik.asked(now)
			d.traefik.asked(now)
		}
		if got := d.toldLoopback(board, now); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
