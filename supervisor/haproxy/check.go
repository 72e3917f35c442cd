package haproxy

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// checks keeps whose own HTTP checks say that they are the last one up. HAProxy tells
// with each check how it sees the server (http-check send-state).
type checks struct {
	mu    sync.Mutex
	alone map[string]check // by container ID
}

type check struct {
	backend string
	at      time.Time
}

const (
	maxAlone   = 10_000           // who asks is not known, so there is a limit
	checkHolds = 15 * time.Second // a check older than that says nothing
)

// Checked takes note of the header X-Haproxy-Server-State of a check of a container,
// such as "UP 2/3; name=web/c1; node=lb1; weight=1/3; scur=0/4; qcur=0".
func (h *HAProxy) Checked(id, state string) {
	backend, alone := readState(state)
	h.seen.note(id, backend, alone, time.Now())
}

func (c *checks) note(id, backend string, alone bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !alone {
		delete(c.alone, id)
		return
	}
	if c.alone == nil {
		c.alone = map[string]check{}
	}
	if len(c.alone) >= maxAlone {
		maps.DeleteFunc(c.alone, func(_ string, seen check) bool { return now.Sub(seen.at) > checkHolds })
	}
	if _, known := c.alone[id]; known || len(c.alone) < maxAlone {
		c.alone[id] = check{backend, now}
	}
}

// last names where the container is the last one up; it is empty where it is not.
func (c *checks) last(id string, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.alone[id]
	if !ok || now.Sub(seen.at) > checkHolds {
		delete(c.alone, id)
		return ""
	}
	return "backend " + seen.backend + " of HAProxy"
}

// readState reads the header: the server is up and has all of the backend's weight.
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
	if backend == "" || odd(backend) != "" {
		return "", false
	}
	return backend, alone
}
