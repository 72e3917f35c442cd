package api

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// connections are those of one server. When there are more than most, the one goes that has waited
// longest for a request, or for the rest of one: a crowd of silent clients shuts nobody out.
// One whose request is being answered stays: their number is bounded by limits and maxWaiting.
type connections struct {
	most int

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // in waiting; nil: its request is being answered
	waiting *list.List                 // of net.Conn, the one that has waited longest first
}

func newConnections(most int) *connections {
	return &connections{most: most, open: map[net.Conn]*list.Element{}, waiting: list.New()}
}

// state is the ConnState of a server.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, known := c.open[conn]
	switch {
	case state == http.StateNew, state == http.StateIdle && known:
		c.leave(place)
		c.open[conn] = c.waiting.PushBack(conn)
		if len(c.open) > c.most {
			c.drop(c.waiting.Front())
		}
	case state == http.StateClosed, state == http.StateHijacked:
		c.leave(place)
		delete(c.open, conn)
	}
}

func (c *connections) leave(place *list.Element) {
	if place != nil {
		c.waiting.Remove(place)
	}
}

func (c *connections) drop(place *list.Element) {
	conn := c.waiting.Remove(place).(net.Conn)
	delete(c.open, conn)
	conn.Close()
}

type connectionKey struct{}

// context is the ConnContext of a server.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// busy has the connection of each request stay while h answers.
func (c *connections) busy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); ok {
			c.mu.Lock()
			if place, known := c.open[conn]; known {
				c.leave(place)
				c.open[conn] = nil
			}
			c.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
}
