package haproxy

import (
	"context"
	"strings"
	"sync"
	"time"
)

// claims says which instance pushes to a process. Two sockets may be of one process, and two instances would add its
// servers twice.
type claims struct {
	mu sync.Mutex
	by map[process]*instance
}

// take returns the instance that has the process, or nil when that is l from now on.
func (c *claims) take(p process, l *instance) (other *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if has := c.by[p]; has != nil {
		if has == l {
			return nil
		}
		return has
	}
	if c.by == nil {
		c.by = map[process]*instance{}
	}
	c.drop(l) // the process before
	c.by[p] = l
	return nil
}

// release lets another instance have the process of l, whose socket does not answer.
func (c *claims) release(l *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(l)
}

func (c *claims) drop(l *instance) {
	for p, has := range c.by {
		if has == l {
			delete(c.by, p)
		}
	}
}

// claim returns the instance that pushes to the process, or nil when that is l. HAProxies in containers may have the same
// pid in the same second: only one that shows several sockets with level admin is looked for elsewhere.
func (l *instance) claim(ctx context.Context, p process) (other *instance, err error) {
	if len(l.h.instances) < 2 {
		return nil, nil
	}
	if p != l.process {
		answers, err := l.query(ctx, []string{"show cli sockets"})
		if err != nil {
			return nil, err
		}
		l.several = adminSockets(answers[0]) > 1
	}
	if l.several {
		other = l.h.claims.take(p, l)
	}
	l.standsBy.Store(other != nil)
	return other, nil
}

// adminSockets counts the sockets of a process to which healthd might push: "unix@/run/haproxy/admin.sock admin all".
func adminSockets(text string) (n int) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 1 && words[1] == "admin" && !strings.HasPrefix(words[0], "sockpair@") { // that is its master's
			n++
		}
	}
	return n
}

// standBy forgets what the socket showed: if this instance has to push again, others have changed it meanwhile.
func (l *instance) standBy(p process, other *instance) {
	if other == nil {
		return
	}
	l.report.Store(nil)
	l.pushed, l.changedAt = false, time.Time{}
	l.backends, l.process, l.behind = map[string]*backendState{}, process{}, true
	if l.told != p {
		l.told = p
		l.record(EventError, "HAProxy at %s is the one at %s: healthd pushes there, and here while that does not answer", l.socket.text, other.socket.text)
	}
}
