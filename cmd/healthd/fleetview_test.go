package main

import (
	"fmt"
	"net/netip"
	"testing"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/fleet"
)

// This host's containers are shown as other hosts see them, beside theirs.
func TestFleetView(t *testing.T) {
	published := func(port int) func(*core.View) {
		return func(v *core.View) {
			v.Service, v.Spec.Publish.Port = "shop/web", 80
			v.Container.State, v.State.Engine.State = runtime.Running, runtime.Running
			if v.State.Conditions.Ready.Status = port > 0; port > 0 {
				v.Container.HostPorts = []runtime.HostPort{{Port: 80, IP: netip.IPv4Unspecified(), HostPort: port}}
			}
		}
	}
	board := supervisor.NewBoard(nil, container("web-2", published(8082)), container("web-1", published(0)), container("job", func(v *core.View) { v.Service = "" }))
	board.ShowRemote([]supervisor.Member{{
		Host: "a", Container: "web-1", ID: "a/1", Service: "shop/web", Address: "10.0.0.9", Port: 80, Draining: true, Reason: core.NotReadyDraining,
	}}, nil)
	config := &configs.Fleet{Endpoints: []string{"http://127.0.0.1:9"}, Advertise: netip.MustParseAddr("10.0.0.5")}
	f, err := fleet.New(fleet.Config{Endpoints: config.Endpoints, Prefix: "/healthd/", Host: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	v := shownFleet{f, config, board}.View()
	got := ""
	for _, h := range v.Hosts {
		got += fmt.Sprintln(h.Name, h.State, h.Address, h.Ready, h.Draining, h.Down)
	}
	for _, m := range v.Members {
		got += fmt.Sprintln(m.Service, m.Host, m.Container, m.Address, m.Port, m.State, m.Reason)
	}
	want := "h1 live 10.0.0.5 1 0 1\n" +
		"shop/web a web-1 10.0.0.9 80 draining Draining\n" +
		"shop/web h1 web-1  0 down ReadinessGatesNotReady\n" +
		"shop/web h1 web-2 10.0.0.5 8082 ready \n"
	if got != want || v.Connected || v.Host != "h1" {
		t.Errorf("got\n%s(%+v), want\n%s", got, v, want)
	}
}
