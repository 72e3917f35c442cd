package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"healthd/runtime/containerd/containerdtest"
)

// grpcProxy is a socket in front of containerd's. It passes on all calls, and shows them.
type grpcProxy struct {
	path   string
	engine *grpc.ClientConn
	server *grpc.Server
	served chan struct{}
	// called is called before a call is passed on, with its first message, and answered when it
	// has ended. Both are set before there are calls.
	called   func(*grpcCall)
	answered func(*grpcCall, error)
	// loses says that nobody hears the answer: the connection is cut instead.
	loses func(*grpcCall) bool

	mu       sync.Mutex
	conns    map[*proxiedConn]struct{}
	refusing bool
	flowing  chan struct{} // closed, but while connections stall
}

// grpcCall is one call of healthd.
type grpcCall struct {
	method    string // the last part of its name, as in "Tasks/Kill"
	namespace string
	request   []byte
}

func startGRPCProxy(t *testing.T, e *containerdtest.Engine) *grpcProxy {
	t.Helper()
	p := &grpcProxy{path: e.Path("p.sock"), conns: map[*proxiedConn]struct{}{}, served: make(chan struct{}), flowing: make(chan struct{})}
	close(p.flowing)
	const most = 64 << 20
	var err error
	p.engine, err = grpc.NewClient(e.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(most)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(p.pass), grpc.MaxRecvMsgSize(most))
	go func() {
		defer close(p.served)
		_ = p.server.Serve(&proxiedListener{l, p})
	}()
	t.Cleanup(func() {
		p.resume()
		p.server.Stop()
		<-p.served
		_ = p.engine.Close()
	})
	return p
}

// Runtime returns the [[runtime]] of a configuration for what is behind the proxy.
func (p *grpcProxy) Runtime() string {
	return "[[runtime]]\ntype = \"containerd\"\nendpoint = \"unix://" + filepath.Clean(p.path) + "\"\n"
}

// refuse ends all connections, and new ones at once, until accept.
func (p *grpcProxy) refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.cut()
}

func (p *grpcProxy) accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = false
}

// cut ends all connections.
func (p *grpcProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Conn.Close()
	}
}

// stall lets no byte through until resume.
func (p *grpcProxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flowing = make(chan struct{})
}

func (p *grpcProxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
	default:
		close(p.flowing)
	}
}

func (p *grpcProxy) awaitFlow() {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	<-flowing
}

// pass passes one call on, of any kind.
func (p *grpcProxy) pass(_ any, from grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(from)
	given, _ := metadata.FromIncomingContext(from.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(from.Context(), given))
	defer cancel()
	call := &grpcCall{method: method[strings.LastIndexByte(method, '.')+1:]}
	if names := given.Get("containerd-namespace"); len(names) > 0 {
		call.namespace = names[0]
	}
	if err := from.RecvMsg(&call.request); err != nil {
		return err
	}
	p.called(call)
	err := p.ask(ctx, method, call, from)
	p.answered(call, err)
	if p.loses(call) {
		p.cut()
		return grpcstatus.Error(codes.Unavailable, "the answer is lost")
	}
	return err
}

// ask sends one message and passes on all answers: containerd has no call with more messages
// of the client that healthd makes.
func (p *grpcProxy) ask(ctx context.Context, method string, call *grpcCall, from grpc.ServerStream) error {
	to, err := p.engine.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := to.SendMsg(&call.request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := to.CloseSend(); err != nil {
		return err
	}
	for {
		var answer []byte
		if err := to.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := from.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

type proxiedListener struct {
	net.Listener
	p *grpcProxy
}

func (l *proxiedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.p.mu.Lock()
		refusing := l.p.refusing
		proxied := &proxiedConn{c, l.p}
		if !refusing {
			l.p.conns[proxied] = struct{}{}
		}
		l.p.mu.Unlock()
		if !refusing {
			return proxied, nil
		}
		_ = c.Close()
	}
}

type proxiedConn struct {
	net.Conn
	p *grpcProxy
}

func (c *proxiedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.awaitFlow()
	return n, err
}

func (c *proxiedConn) Write(b []byte) (int, error) {
	c.p.awaitFlow()
	return c.Conn.Write(b)
}

func (c *proxiedConn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c)
	c.p.mu.Unlock()
	return c.Conn.Close()
}
