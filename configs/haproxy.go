package configs

import "healthd/supervisor/core"

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
	h := HAProxy{Sockets: t.distinct(key, key, maxSockets, checkRuntimeSocket, sameSocket)}
	t.done()
	// HAProxy refuses "agent up" for a server without an agent check. After a restart
	// it has forgotten what was pushed and must ask.
	if len(h.Sockets) > 0 && agent == "" {
		t.wrong(t.n.below(key), t.at(key), "needs listen.agent, which is off: HAProxy accepts pushes only for servers with an agent check")
	}
	return h
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

// checkPush reports a spec with a backend where no sockets are set. It does not where
// the sockets are wrong or may be in a file that could not be read: that is reported
// already.
func (l *loader) checkPush(s *fileSpec) {
	sockets := l.sections["haproxy"].below("sockets")
	off := sockets == nil || sockets.kind == arrayKind && len(sockets.items) == 0
	if n := s.node.below(backendPath); n != nil && off && !l.incomplete {
		l.wrong(n, s.prefix()+backendPath, needsSockets)
	}
}

// checkPush reports what a container's backend lacks. In a file it may lack the port,
// which labels often set.
func (c *Config) checkPush(r *reader, spec *node) {
	n := spec.below(backendPath)
	if n == nil {
		return
	}
	if len(c.HAProxy.Sockets) == 0 {
		r.wrong(n, backendPath, needsSockets)
	}
	if spec.below("publish.port") == nil {
		r.wrong(n, backendPath, needsPort)
	}
}
