package api

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// connections are those of one server. When there are more than most, one of the greater part goes: of
// those that wait for a request, or for the rest of one, or of those whose request is being answered,
// the one that has done so for longest. So neither a crowd of silent clients nor one of slow readers
// shuts anybody out, and an answer that takes long is safe from silent ones. Event streams stay: they
// have a bound of their own.
type connections struct {
	most int

	mu                 sync.Mutex
	open               map[net.Conn]*place
	waiting, answering *list.List // of net.Conn, the one that has been there for longest first
}

// place is where a connection is in one of the lists; list is nil for an event stream.
type place struct {
	list    *list.List
	element *list.Element
}

func newConnections(most int) *connections {
	return &connections{most: most, open: map[net.Conn]*place{}, waiting: list.New(), answering: list.New()}
}

// state is the ConnState of a server.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = &place{}
		c.move(conn, c.waiting)
		if len(c.open) > c.most {
			c.drop()
		}
	case http.StateIdle:
		c.move(conn, c.waiting)
	case http.StateClosed, http.StateHijacked:
		c.move(conn, nil)
		delete(c.open, conn)
	}
}

// move has a connection come last in a list, or in none, unless it was dropped.
func (c *connections) move(conn net.Conn, to *list.List) {
	p := c.open[conn]
	if p == nil {
		return
	}
	if p.list != nil {
		p.list.Remove(p.element)
	}
	if p.list = to; to != nil {
		p.element = to.PushBack(conn)
	}
}

func (c *connections) drop() {
	from := c.waiting
	if c.answering.Len() > from.Len() {
		from = c.answering
	}
	conn := from.Front().Value.(net.Conn) // there is one: the newest waits
	c.move(conn, nil)
	delete(c.open, conn)
	conn.Close()
}

type connectionKey struct{}

// connection is what the context of a request has of its connection.
type connection struct {
	of   *connections
	conn net.Conn
}

// context is the ConnContext of a server.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connection{c, conn})
}

// moveConnection moves the connection of a request to what to returns.
func moveConnection(r *http.Request, to func(*connections) *list.List) {
	if of, ok := r.Context().Value(connectionKey{}).(connection); ok {
		of.of.mu.Lock()
		defer of.of.mu.Unlock()
		of.of.move(of.conn, to(of.of))
	}
}

// busy notes that h answers.
func (c *connections) busy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		moveConnection(r, func(c *connections) *list.List { return c.answering })
		h.ServeHTTP(w, r)
	})
}

// stay has the connection of a request stay until the answer ends.
func stay(r *http.Request) {
	moveConnection(r, func(*connections) *list.List { return nil })
}
