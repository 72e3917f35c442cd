package etcdtest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is a way to a member of a cluster that can be cut.
type Proxy struct {
	Endpoint string
	target   string
	listener net.Listener

	passing sync.RWMutex // locked: it hangs

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// NewProxy returns a way to an endpoint. It ends with the test.
func NewProxy(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Endpoint: u.Scheme + "://" + l.Addr().String(), target: u.Host, listener: l, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.pass(conn) })
	}
}

func (p *Proxy) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp4", p.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.add(from) {
		return
	}
	defer p.remove(from)
	p.wg.Go(func() {
		defer from.Close()
		_, _ = io.Copy(from, p.passed(to))
	})
	_, _ = io.Copy(to, p.passed(from))
}

func (p *Proxy) add(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) remove(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// reader has what it reads wait while the way hangs.
type reader struct {
	io.Reader
	way *Proxy
}

func (r reader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.way.passing.RLock()
	defer r.way.passing.RUnlock()
	return n, err
}

func (p *Proxy) passed(conn net.Conn) io.Reader { return reader{conn, p} }

// Hang lets nothing more through, but its connections stay. The test must call Release before it ends.
func (p *Proxy) Hang() { p.passing.Lock() }

// Release ends a Hang.
func (p *Proxy) Release() { p.passing.Unlock() }

// Cut ends all connections, and lets no new ones through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		conn.Close()
	}
}

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}
