package configs

import (
	"net/netip"

	"healthd/supervisor/core"
)

const (
	maxSockets = 16

	backendPath  = "publish.haproxy.backend"
	needsSockets = "needs [haproxy] sockets"
	needsPort    = "needs publish.port"
)

// readHAProxy reads the sockets of HAProxy's Runtime API. agent is where healthd
// answers HAProxy's agent checks.
func readHAProxy(t *table, agent string) HAProxy {
	const key = "sockets"
	h := HAProxy{Sockets: t.distinct(key, key, maxSockets, checkRuntimeSocket, sameSocket), ChecksFrom: readChecksFrom(t)}
	t.done()
	// HAProxy refuses "agent up" for a server without an agent check. After a restart
	// it has forgotten what was pushed and must ask.
	if len(h.Sockets) > 0 && agent == "" {
		t.wrong(t.n.below(key), t.at(key), "needs listen.agent, which is off: HAProxy accepts pushes only for servers with an agent check")
	}
	return h
}

// readChecksFrom reads addresses and prefixes. By default the host itself counts.
func readChecksFrom(t *table) []netip.Prefix {
	const key, most = "checks_from", 100
	var all []netip.Prefix
	texts := []string{"127.0.0.0/8", "::1"}
	if t.has(key) {
		texts = t.distinct(key, "addresses", most, checkPrefix, samePrefix)
	} else {
		t.take(key)
	}
	for _, s := range texts {
		if p, err := parsePrefix(s); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// parsePrefix reads an address, which is a prefix of one, or a prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return ip.Unmap().Prefix(ip.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

func checkPrefix(s string) string {
	if _, err := parsePrefix(s); err != nil {
		return `must be an IP address or a prefix such as "10.0.0.0/8"`
	}
	return ""
}

func samePrefix(s string) string {
	p, _ := parsePrefix(s)
	return p.String()
}

// readBackend records no value when there is no backend.
func readBackend(t *table) core.HAProxy {
	var h core.HAProxy
	if t.n == nil {
		return h
	}
	if !t.missing("backend") {
		h.Backend = t.text("backend", "", checkBackend)
	}
	t.done()
	return h
}

// checkPush reports a spec with a backend where no sockets are set, and HAProxy is on no other host, either. It does
// not where the sockets are wrong or may be in a file that could not be read: that is reported already.
func (l *loader) checkPush(s *fileSpec) Problems {
	sockets := l.sections["haproxy"].below("sockets")
	off := sockets == nil || sockets.kind == arrayKind && len(sockets.items) == 0
	if n := s.node.below(backendPath); n != nil && off && !l.incomplete && l.sections[fleetSection] == nil {
		return Problems{n.at.problem(s.prefix()+backendPath, needsSockets)}
	}
	return nil
}

// checkPush reports what a container's backend lacks. In a file it may lack the port,
// which labels often set.
func (c *Config) checkPush(r *reader, spec *node) {
	n := spec.below(backendPath)
	if n == nil {
		return
	}
	if len(c.HAProxy.Sockets) == 0 && c.Fleet == nil {
		r.wrong(n, backendPath, needsSockets)
	}
	if spec.below("publish.port") == nil {
		r.wrong(n, backendPath, needsPort)
	}
}
