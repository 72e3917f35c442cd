package configs

import "healthd/supervisor/core"

const (
	maxSockets = 16

	backendPath  = "publish.haproxy.backend"
	needsSockets = "needs [haproxy] sockets"
	needsPort    = "needs publish.port"
)

// readHAProxy reads where HAProxy listens to healthd; agent is where healthd listens
// to HAProxy.
func readHAProxy(t *table, agent string) HAProxy {
	const key = "sockets"
	h := HAProxy{Sockets: t.distinct(key, key, maxSockets, checkRuntimeSocket, sameSocket)}
	t.done()
	// It refuses "agent up" for a server without an agent check, and forgets what was
	// pushed when it is restarted: then it has to ask.
	if len(h.Sockets) > 0 && agent == "" {
		t.wrong(t.n.below(key), t.at(key), "needs listen.agent, which is off: without its agent check HAProxy takes no pushes")
	}
	return h
}

// readBackend shows nothing when there is none.
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

// checkPush reports that the spec in a file has a backend while nothing is pushed.
// Where the sockets are wrong or may be in a file that could not be read, it does
// not: that is a problem already.
func (l *loader) checkPush(s *fileSpec) {
	sockets := l.sections["haproxy"].below("sockets")
	off := sockets == nil || sockets.kind == arrayKind && len(sockets.items) == 0
	if n := s.node.below(backendPath); n != nil && off && !l.incomplete {
		l.wrong(n, s.prefix()+backendPath, needsSockets)
	}
}

// checkPush reports what a container's backend lacks. A file's own may lack the port,
// which is often the labels' to say.
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
