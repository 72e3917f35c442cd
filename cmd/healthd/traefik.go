package main

import (
	"sync"
	"time"
)

// poller notes whether somebody asks again and again.
type poller struct {
	mu           sync.Mutex
	before, last time.Time // the newest two requests
}

func (p *poller) asked(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.last = p.last, now
}

// active says that there were two requests within the last minute: one alone may be anybody's, to try it.
func (p *poller) active(now time.Time) bool {
	const recent = time.Minute
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.before.IsZero() && now.Sub(p.before) < recent
}

// traefikUnexpected warns of a Traefik for which no drain waits.
func (d *daemon) traefikUnexpected(now time.Time) string {
	if !d.traefik.active(now) || d.config.Load().ExpectsTraefik() {
		return ""
	}
	return "Traefik asks /v1/discovery/traefik, and there is no [traefik] in the configuration: " +
		"containers may be stopped while Traefik still sends them requests; write [traefik], and healthd reload"
}
