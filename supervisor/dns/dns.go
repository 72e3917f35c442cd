// Package dns answers DNS queries about services from the supervisor's board.
//
//	web.shop.healthd.             A, AAAA   the addresses of the ready containers of shop/web
//	                              SRV       their names and ports
//	_http._tcp.web.shop.healthd.  SRV       the same
//	web.healthd.                            the same, while only one service is called web
//	shop-web-1.web.shop.healthd.  A, AAAA   that container, ready or not
//	h2-web-1.web.shop.healthd.              that of host h2 in the fleet
//
// A query after a change is answered with what is then on the board. Names are in an index, which is made anew when
// somebody asks after a change; see Server.current. Nothing here makes the supervisor's loop wait.
package dns

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"healthd/supervisor"
)

// EventError is the reason of the event that something is not answered for.
const EventError = "DNSError"

// Server answers. It is a prometheus.Collector. Its methods may be called from any goroutine.
type Server struct {
	board   *supervisor.Board
	journal supervisor.Journal
	queries queryCounts
	writers sync.Pool // of what is longer than UDP's

	newest   atomic.Pointer[index] // nil: none was made yet
	building sync.Mutex            // for what follows
	pace     pace
	teller   teller
}

// New returns a Server that answers nobody until Serve is called.
func New(board *supervisor.Board, journal supervisor.Journal) *Server {
	s := &Server{board: board, journal: journal}
	s.writers.New = func() any { return newWriter(maxTCP) }
	return s
}

// Serve answers until ctx ends and the last answer was sent. It has at most mostTCP connections at once. It closes ls.
// Its error is one of a listener that does not go away.
func (s *Server) Serve(ctx context.Context, ls *Listeners, mostTCP int) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stop := context.AfterFunc(ctx, ls.Close)
	defer func() {
		if stop() {
			ls.Close()
		}
	}()
	var servers sync.WaitGroup
	run := func(serve func(context.Context) error) {
		servers.Go(func() {
			if err := serve(ctx); err != nil && ctx.Err() == nil {
				fail(err)
			}
		})
	}
	for range atOnceUDP {
		run(func(ctx context.Context) error { return s.serveUDP(ctx, ls.udp) })
	}
	run(func(ctx context.Context) error { return s.serveTCP(ctx, ls.tcp, mostTCP) })
	run(s.watch)
	servers.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// watch looks at the board now and then, so that somebody is told of names that are wrong before anybody asks for them.
func (s *Server) watch(ctx context.Context) error {
	const lull = 5 * time.Second
	for ctx.Err() == nil {
		changed := s.board.Changed()
		if x, _ := s.current(); x != nil {
			changed = x.changed
		}
		select {
		case <-changed:
			pause(ctx, lull)
		case <-ctx.Done():
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// current returns the newest index; nil while containers become known. Of an engine that is away for long it has none. It is stale when the board has changed since
// and indexes take so much time that the next one has to wait: then what it says of endpoints must be looked up.
func (s *Server) current() (x *index, stale bool) {
	if x := s.newest.Load(); x.fresh() {
		return x, false
	}
	if s.board.Waits() {
		return nil, false
	}
	s.building.Lock() // who waits here need not make another one
	defer s.building.Unlock()
	x = s.newest.Load()
	begin := time.Now()
	switch {
	case x.fresh():
		return x, false
	case !s.pace.allows(begin) && x != nil:
		return x, true
	}
	changed := s.board.Changed()
	services, all := s.board.ServicesSynced()
	x = newIndex(services)
	x.changed, x.gaps, x.alone = changed, !all, s.board.Synced()
	s.newest.Store(x)
	end := time.Now()
	s.pace.spend(end.Sub(begin))
	s.teller.tell(s.journal, x.problems, end)
	return x, false
}

// fresh says that the board shows what the index has.
func (x *index) fresh() bool {
	if x == nil {
		return false
	}
	select {
	case <-x.changed:
		return false
	default:
		return true
	}
}

// pace bounds the time that indexes take on a large host on which much happens: a part of all time, and some more at
// first. It is zero at the beginning.
type pace struct {
	spent time.Duration // that counts
	at    time.Time
}

const (
	paceFree = 100 * time.Millisecond
	pacePart = 5
)

func (p *pace) allows(now time.Time) bool {
	p.spent = max(0, p.spent-now.Sub(p.at)/pacePart)
	p.at = now
	return p.spent < paceFree
}

func (p *pace) spend(d time.Duration) { p.spent += d }

// respond returns the answer to a packet; nil: there is none.
func (s *Server) respond(w *writer, packet []byte, tcp bool) []byte {
	r := read(packet)
	if r == nil {
		return nil
	}
	limit := maxTCP
	if !tcp {
		limit = r.room()
	}
	a := answer{rcode: r.wrong, outside: true}
	if r.wrong == 0 {
		x, stale := s.current()
		a = reply(r.Question[0], x, func(of *service) *service {
			if stale {
				return of.live(s.board)
			}
			return of
		})
	}
	s.queries.count(r, a.rcode)
	return w.write(r, &a, limit)
}

// waitAfter waits after a failed read or accept, for example without descriptors. It returns err when that is
// permanent, and nil when ctx has ended.
func waitAfter(ctx context.Context, err error) error {
	const retry = 50 * time.Millisecond
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	pause(ctx, retry)
	return nil
}
