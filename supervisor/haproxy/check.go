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
	lastUp map[string]check // by container ID
}

type check struct {
	backend string
	at      time.Time
}

const (
	maxHTTPChecks   = 10_000           // anybody may send the header, so it is bounded
	httpCheckMaxAge = 15 * time.Second // an older check is ignored
)

// Checked notes the header X-Haproxy-Server-State of an HTTP check of a container, such as
// "UP 2/3; name=web/c1; node=lb1; weight=1/3; scur=0/4; qcur=0". It ignores other text.
func (h *HAProxy) Checked(id, state string) {
	backend, alone := readState(state)
	h.httpChecks.note(id, backend, alone, time.Now())
}

func (c *checks) note(id, backend string, alone bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !alone {
		delete(c.lastUp, id)
		return
	}
	if c.lastUp == nil {
		c.lastUp = map[string]check{}
	}
	if len(c.lastUp) >= maxHTTPChecks {
		maps.DeleteFunc(c.lastUp, func(_ string, seen check) bool { return now.Sub(seen.at) > httpCheckMaxAge })
	}
	if _, known := c.lastUp[id]; known || len(c.lastUp) < maxHTTPChecks {
		c.lastUp[id] = check{backend, now}
	}
}

// lastUpBackend names the backend in which the container is the last one up, or returns "".
func (c *checks) lastUpBackend(id string, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.lastUp[id]
	if !ok || now.Sub(seen.at) > httpCheckMaxAge {
		delete(c.lastUp, id)
		return ""
	}
	return "backend " + seen.backend + " of HAProxy"
}

// readState parses the header. alone says that the server is up and has all of the
// backend's weight.
func readState(state string) (backend string, alone bool) {
	const most = 512
	if len(state) > most || !strings.HasPrefix(state, "UP") {
		return "", false
	}
	for part := range strings.SplitSeq(state, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "name":
			backend, _, _ = strings.Cut(value, "/")
		case "weight":
			mine, total, _ := strings.Cut(value, "/")
			n, err := strconv.Atoi(mine)
			alone = err == nil && n > 0 && mine == total
		}
	}
	if backend == "" || invalidCharacters(backend) != "" {
		return "", false
	}
	return backend, alone
}
