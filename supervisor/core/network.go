package core

import (
	"fmt"
	"slices"
	"strings"

	"healthd/prober"
)

// warnNetwork finds a container of several networks for which nobody has said where it is reached, and
// one that is not in the network that its spec names.
func (v *View) warnNetwork() string {
	c, wanted := v.Container, v.Spec.Network
	if !c.State.Alive() || !v.needsAddress() {
		return ""
	}
	var names []string
	for _, n := range c.Networks {
		names = append(names, n.Network)
	}
	const most = 5 // an operator sees by then what it is about
	all := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		all += fmt.Sprintf(" and %d more", len(names)-most)
	}
	switch {
	case wanted != "" && c.Network != wanted && len(names) == 0:
		return "it is not in the network " + wanted + ", which its spec names: " + v.withoutAddress()
	case wanted != "" && c.Network != wanted:
		return "it is not in the network " + wanted + ", which its spec names, but in " + all + ": " + v.withoutAddress()
	case wanted == "" && len(names) > 1:
		return "it is in several networks (" + all + "), and healthd takes its address in " + c.Network + " to probe and to publish: choose one with network"
	}
	return ""
}

// warnHostPort finds a port that the container does not publish, and at which its engine publishes another one on the
// host: the other side of the mapping was meant.
func (v *View) warnHostPort() string {
	if v.Container.HostNetwork {
		return ""
	}
	if own := v.behind(v.Spec.Publish.Port); own != 0 {
		return hostsSide("publish.port", v.Spec.Publish.Port, own)
	}
	for _, t := range []ProbeType{Startup, Liveness, Readiness} {
		p := v.Spec.Probes[t]
		if p == nil {
			continue
		}
		if port := askedPort(p.Handler); v.behind(port) != 0 {
			return hostsSide("the port of its "+t.String()+" probe", port, v.behind(port))
		}
	}
	return ""
}

func hostsSide(what string, port, own int) string {
	return fmt.Sprintf("%s is %d, the host's side of a mapping: the container's own port is %d", what, port, own)
}

// behind returns the container's port behind a port of the host that is not also published as its own; 0: there is none.
func (v *View) behind(port int) (own int) {
	for _, h := range v.Container.HostPorts {
		switch {
		case h.Port == port:
			return 0
		case h.HostPort == port && own == 0:
			own = h.Port
		}
	}
	return own
}

// askedPort is the port of the container's own that a handler asks; 0: none.
func askedPort(h prober.Handler) int {
	switch {
	case h.HTTPGet != nil && h.HTTPGet.Host == "":
		return h.HTTPGet.Port
	case h.TCPSocket != nil && h.TCPSocket.Host == "":
		return h.TCPSocket.Port
	case h.GRPC != nil:
		return h.GRPC.Port
	}
	return 0
}

// withoutAddress says what follows when the container has no address.
func (v *View) withoutAddress() string {
	fromHost := func(p *ProbeSpec) bool {
		return p != nil && asksAddress(p.Handler) && !p.Handler.Inside("")
	}
	if slices.ContainsFunc(v.Spec.Probes[:], fromHost) {
		return `load balancers get no address, and probes with via = "host" cannot run`
	}
	return "load balancers get no address, and probes are asked inside it"
}

// needsAddress says whether anything depends on the container's address: what healthd tells a load
// balancer, or a probe or hook that is asked there.
func (v *View) needsAddress() bool {
	probed := func(p *ProbeSpec) bool { return p != nil && asksAddress(p.Handler) }
	hooked := func(h *prober.LifecycleHandler) bool {
		return h != nil && asksAddress(prober.Handler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
	}
	return v.Spec.Publish.Port != 0 || slices.ContainsFunc(v.Spec.Probes[:], probed) ||
		hooked(v.Spec.Lifecycle.PostStart) || hooked(v.Spec.Lifecycle.PreStop)
}

func asksAddress(h prober.Handler) bool {
	switch {
	case h.HTTPGet != nil:
		return h.HTTPGet.Host == "" && h.HTTPGet.Via != prober.ViaContainer
	case h.TCPSocket != nil:
		return h.TCPSocket.Host == "" && h.TCPSocket.Via != prober.ViaContainer
	case h.GRPC != nil:
		return h.GRPC.Via != prober.ViaContainer
	}
	return false
}
