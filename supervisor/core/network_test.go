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

// Of a mapping 8091:8080 the container's side is meant, by publish.port and by probes.
func TestWarnsOfTheHostsPort(t *testing.T) {
	mapped := runtime.HostPortsOf(8080, "", 8091)
	for _, tt := range []struct {
		name    string
		publish int
		handler prober.Handler
		ports   []runtime.HostPort
		host    bool
		want    string
	}{
		{name: "the container's", publish: 8080, handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 8080}}, ports: mapped},
		{name: "the host's", publish: 8091, ports: mapped, want: "publish.port is 8091, the host's side of a mapping: the container's own port is 8080"},
		{name: "both sides are the container's", publish: 8091, ports: append(runtime.HostPortsOf(8091, "", 80), mapped...)},
		{name: "another port", publish: 9090, ports: mapped},
		{name: "not published", publish: 8091},
		{name: "the host's network", publish: 8091, ports: mapped, host: true},
		{name: "a probe", publish: 8080, handler: prober.Handler{HTTPGet: &prober.HTTPGet{Port: 8091}}, ports: mapped,
			want: "the port of its readiness probe is 8091, the host's side of a mapping: the container's own port is 8080"},
		{name: "a probe of the host", publish: 8080, handler: prober.Handler{HTTPGet: &prober.HTTPGet{Port: 8091, Host: "10.0.0.1"}}, ports: mapped},
	} {
		v := &View{
			Container: &runtime.Container{State: runtime.Running, HostPorts: runtime.KeptHostPorts(tt.ports), HostNetwork: tt.host},
			Spec:      &Spec{Publish: Publish{Port: tt.publish}, Probes: [NumProbes]*ProbeSpec{Readiness: {Handler: tt.handler}}}, State: NewState(),
		}
		if got := v.warnHostPort(); got != tt.want {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}
