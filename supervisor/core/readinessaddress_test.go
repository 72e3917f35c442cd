package core

import (
	"net/netip"
	"testing"

	"healthd/runtime"
)

// A container that has lost its network is ready nowhere: its old address may be another one's now.
func TestReadyOnlyWithAnAddress(t *testing.T) {
	const has, lost, far = "10.0.0.2", "", "10.0.0.9"
	inspected := func(sim *simulation, address string) {
		if sim.c.Address, sim.c.From = address, nil; address == far {
			sim.c.From = &runtime.Vantage{Place: runtime.Place{Elsewhere: "far", At: netip.MustParseAddr("127.0.0.1")}}
		}
	}
	for _, tt := range []struct {
		name      string
		addresses []string // of one inspection after the other
		port      int
		ready     bool
	}{
		{"it has one", []string{has}, 80, true},
		{"it has never had one, and is not published", []string{lost}, 0, true},
		{"it has never had one, and is published", []string{lost}, 80, false},
		{"it has lost its own", []string{has, lost}, 0, false},
		{"it has one again", []string{has, lost, has}, 0, true},
		{"it has another one", []string{has, "10.0.0.3"}, 80, true},
		{"its engine is elsewhere", []string{far, far}, 0, true},
		{"its engine is elsewhere, and it is published", []string{far}, 80, false},
		{"its engine is elsewhere, which publishes its port", []string{far}, 8080, true},
		{"its engine turns out to be elsewhere", []string{has, far}, 0, true},
		{"its engine turns out to be elsewhere, and it is published", []string{has, far}, 80, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := simulate(t)
			sim.spec.Publish.Port = tt.port
			sim.c.HostPorts = runtime.KeptHostPorts([]runtime.HostPort{{Port: 8080, IP: netip.MustParseAddr("0.0.0.0"), HostPort: 80}})
			inspected(sim, tt.addresses[0])
			sim.play("0s runs")
			for _, address := range tt.addresses[1:] {
				inspected(sim, address)
				sim.play("10s")
				sim.step("inspected", &Input{Kind: Observed})
			}
			v := sim.view()
			ready, reason, _ := v.Readiness()
			if ready != tt.ready || !ready && reason != NotReadyNoAddress {
				t.Errorf("ready: %v (%s), want %v\n%s", ready, reason, tt.ready, sim.transcript.String())
			}
		})
	}
	sim := simulate(t, "0s runs")
	sim.c.Address = has
	sim.step("inspected", &Input{Kind: Observed})
	sim.endRun(1)
	sim.step("exits", &Input{Kind: Observed})
	sim.c.Address = lost
	sim.startRun()
	sim.step("runs again", &Input{Kind: Observed})
	if v := sim.view(); sim.c.State != runtime.Running || !v.State.Conditions.Ready.Status {
		t.Errorf("a run that never had an address is not ready because the one before had:\n%s", sim.transcript.String())
	}
}
