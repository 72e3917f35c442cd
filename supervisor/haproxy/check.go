package haproxy

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// checks keeps which containers are the last one up of their backend, by the header that
// HAProxy sends with their HTTP checks (http-check send-state).
type checks struct {
	mu     sync.Mutex
	lastUp map[string]time.Time // when a check said so, by container ID
}

const (
	maxHTTPChecks   = 10_000           // whoever is believed may send much
	httpCheckMaxAge = 15 * time.Second // an older check is ignored
)

// Checked notes the header X-Haproxy-Server-State of an HTTP check of a container, such as
// "UP 2/3; name=web/c1; node=lb1; weight=1/3; scur=0/4; qcur=0". It ignores other text.
func (h *HAProxy) Checked(id, state string) {
	h.httpChecks.note(id, isAlone(state), time.Now())
}

func (c *checks) note(id string, alone bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !alone {
		delete(c.lastUp, id)
		return
	}
	if c.lastUp == nil {
		c.lastUp = map[string]time.Time{}
	}
	if len(c.lastUp) >= maxHTTPChecks {
		maps.DeleteFunc(c.lastUp, func(_ string, seen time.Time) bool { return now.Sub(seen) > httpCheckMaxAge })
	}
	if _, known := c.lastUp[id]; known || len(c.lastUp) < maxHTTPChecks {
		c.lastUp[id] = now
	}
}

// where says where the container is the last one up, or returns "". It names no backend: that would be
// text that a client has sent.
func (c *checks) where(id string, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.lastUp[id]
	if !ok || now.Sub(seen) > httpCheckMaxAge {
		delete(c.lastUp, id)
		return ""
	}
	return "a backend of HAProxy, by its checks"
}

// isAlone says that the header is of a server that is up and has all of its backend's weight.
func isAlone(state string) (alone bool) {
	const most = 512
	if len(state) > most || !strings.HasPrefix(state, "UP") {
		return false
	}
	for part := range strings.SplitSeq(state, ";") {
		if weight, ok := strings.CutPrefix(strings.TrimSpace(part), "weight="); ok {
			mine, total, _ := strings.Cut(weight, "/")
			n, err := strconv.Atoi(mine)
			alone = err == nil && n > 0 && mine == total
		}
	}
	return alone
}
