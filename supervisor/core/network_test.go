package core

import (
	"testing"

	"healthd/prober"
	"healthd/runtime"
)

func TestWarnsOfNetworks(t *testing.T) {
	tcp := &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80}}}
	elsewhere := &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80, Host: "10.0.0.1"}}}
	inside := &ProbeSpec{Handler: prober.Handler{GRPC: &prober.GRPC{Port: 80, Via: prober.ViaContainer}}}
	fromHost := &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80, Via: prober.ViaHost}}}
	exec := &ProbeSpec{Handler: prober.Handler{Exec: &prober.Exec{Command: []string{"true"}}}}
	of := func(names ...string) (all []runtime.NetworkAddress) {
		for _, n := range names {
			all = append(all, runtime.NetworkAddress{Network: n, Address: "10.1.0." + n})
		}
		return all
	}
	const choose = ", and healthd takes its address in 1 to probe and to publish: choose one with network"
	for _, tt := range []struct {
		name     string
		networks []runtime.NetworkAddress
		spec     Spec
		state    runtime.State
		want     string
	}{
		{"one network", of("1"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Running, ""},
		{"two networks", of("1", "2"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Running, "it is in several networks (1, 2)" + choose},
		{"many networks", of("1", "2", "3", "4", "5", "6", "7"), Spec{Publish: Publish{Port: 80}}, runtime.Running, "it is in several networks (1, 2, 3, 4, 5 and 2 more)" + choose},
		{"a hook", of("1", "2"), Spec{Lifecycle: Lifecycle{PreStop: &prober.LifecycleHandler{HTTPGet: &prober.HTTPGet{Port: 80}}}}, runtime.Running, "it is in several networks (1, 2)" + choose},
		{"chosen", of("1", "2"), Spec{Network: "2", Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Running, ""},
		{"not in it", of("1", "2"), Spec{Network: "3", Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Running,
			"it is not in the network 3, which its spec names, but in 1, 2: load balancers get no address, and probes are asked inside it"},
		{"in none", nil, Spec{Network: "3", Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Running,
			"it is not in the network 3, which its spec names: load balancers get no address, and probes are asked inside it"},
		{"not in it, and asked from the host", of("1"), Spec{Network: "3", Probes: [NumProbes]*ProbeSpec{Liveness: fromHost}}, runtime.Running,
			`it is not in the network 3, which its spec names, but in 1: load balancers get no address, and probes with via = "host" cannot run`},
		{"stopped", nil, Spec{Network: "3", Probes: [NumProbes]*ProbeSpec{Liveness: tcp}}, runtime.Exited, ""},
		{"other hosts", of("1", "2"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: elsewhere}}, runtime.Running, ""},
		{"inside", of("1", "2"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: inside}}, runtime.Running, ""},
		{"a command", of("1", "2"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: exec}}, runtime.Running, ""},
	} {
		c := &runtime.Container{State: tt.state, Networks: tt.networks}
		if len(tt.networks) > 0 {
			c.Network, c.Address = tt.networks[0].Network, tt.networks[0].Address
		}
		v := &View{Container: c.InNetwork(tt.spec.Network), Spec: &tt.spec, State: NewState()}
		if got := v.warnNetwork(); got != tt.want {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}
