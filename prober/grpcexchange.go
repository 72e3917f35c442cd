package prober

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// grpcMaxReply bounds the reply, which should have two bytes, and grpcMaxHeaders its headers.
	grpcMaxReply   = 10 << 10
	grpcMaxHeaders = 64 << 10
	// grpcMaxFrames bounds all that a server sends for one call, in bytes.
	grpcMaxFrames = 256 << 10
	// grpcMaxService bounds the name of a service, in bytes: a request that does not fit the first
	// window would have to wait for the server.
	grpcMaxService = 48 << 10
	// grpcFrame is how long a frame may be that every server takes, and grpcWindow how many bytes of
	// data may come before the client grants more. No reply needs more.
	grpcFrame  = 16 << 10
	grpcWindow = 1<<16 - 1
	// grpcTable is how many bytes of headers a server may have kept for the next ones.
	grpcTable = 4 << 10
)

// grpcRequest is a call of grpc.health.v1.Health/Check, ready to be sent.
type grpcRequest struct {
	// headers is a header block that leaves no trace in the server's table, so that it is the same for each
	// call. It ends where the value of grpc-timeout follows.
	headers []byte
	message []byte
}

func newGRPCRequest(scheme, authority, userAgent, service string) (grpcRequest, error) {
	if len(service) > grpcMaxService {
		return grpcRequest{}, fmt.Errorf("the name of the service has %d bytes, more than %d", len(service), grpcMaxService)
	}
	message, err := proto.Marshal(&healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return grpcRequest{}, fmt.Errorf("cannot use the name of the service: %w", err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: scheme},
		{Name: ":path", Value: healthpb.Health_Check_FullMethodName},
		{Name: ":authority", Value: authority},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: userAgent + " grpc-go/" + grpc.Version},
		{Name: "te", Value: "trailers"},
	} {
		_ = encoder.WriteField(f)
	}
	// A literal without indexing, whose name is new (RFC 7541, section 6.2.2).
	const timeout = "grpc-timeout"
	block.WriteByte(0)
	block.WriteByte(byte(len(timeout)))
	block.WriteString(timeout)
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // not compressed
	return grpcRequest{headers: block.Bytes(), message: append(prefix, message...)}, nil
}

// appendTimeout appends the value of grpc-timeout, and its length before it. It has at most eight digits.
func appendTimeout(b []byte, d time.Duration) []byte {
	const most = 99_999_999
	unit, in := byte('u'), time.Microsecond
	if d > most*time.Microsecond {
		unit, in = 'm', time.Millisecond
	}
	if d > most*time.Millisecond {
		unit, in = 'S', time.Second
	}
	n := max(0, d) / in
	if d > n*in {
		n++ // the server must not give up before healthd does
	}
	n = min(n, most)
	start := len(b)
	b = strconv.AppendInt(append(b, 0), int64(n), 10)
	b = append(b, unit)
	b[start] = byte(len(b) - start - 1)
	return b
}

// grpcAnswer is what came of a call.
type grpcAnswer struct {
	// err is why there was no call, or why the connection ended before the call did.
	err error
	// ready says that the server speaks HTTP/2.
	ready bool
	// end is how the call ended if err is nil; nil: OK. serving is then the server's answer.
	end     *status.Status
	serving healthpb.HealthCheckResponse_ServingStatus
	// unprocessed says that the server has not begun with the call, and will not.
	unprocessed bool
	// begun says that something of the reply came.
	begun bool
}

// missed says that the server, on a connection that had calls before, may have left without reading this one. It may do
// so at any time.
func (a grpcAnswer) missed() bool {
	return a.unprocessed || !a.begun && !isTimeout(a.err)
}

func (a grpcAnswer) healthy() bool {
	return a.err == nil && a.end.Code() == codes.OK && a.serving == healthpb.HealthCheckResponse_SERVING
}

// grpcExchange makes one call on a connection. Its buffers are used again by the next probe.
type grpcExchange struct {
	link        *grpcLink
	in          io.LimitedReader // of Read
	br          *bufio.Reader    // of in
	out         bytes.Buffer     // frames that Read sends first
	lost        error            // of the last write, if the server had reset the connection
	framer      *http2.Framer    // of br and out
	headers     []byte
	reply       grpcReply
	interrupted chan struct{}
}

func newGRPCExchange() *grpcExchange {
	x := &grpcExchange{interrupted: make(chan struct{}, 1)}
	x.br = bufio.NewReaderSize(&x.in, readBuffer)
	return x
}

// do makes the call on a connection.
func (x *grpcExchange) do(l *grpcLink, r *grpcRequest, deadline time.Time) grpcAnswer {
	x.begin(l)
	defer x.release()
	first := l.isNew()
	x.writeRequest(r, deadline)
	if err := x.flush(); err != nil {
		return grpcAnswer{err: err}
	}
	if first {
		if err := x.readSettings(); err != nil {
			return grpcAnswer{err: err}
		}
	}
	err := x.readReply()
	l.keep(x.br)
	a := grpcAnswer{
		err: err, ready: true, end: x.reply.end, serving: x.reply.serving, begun: x.reply.came,
		unprocessed: x.reply.refused || errors.Is(err, errDraining),
	}
	if a.end.Code() == codes.Canceled && !time.Now().Before(deadline) {
		a.end = status.New(codes.DeadlineExceeded, a.end.Message()) // the server knows the deadline, too
	}
	return a
}

// errDraining is why a call failed that came after the last one that the server takes.
var errDraining = errors.New("the connection is draining")

func (x *grpcExchange) begin(l *grpcLink) {
	x.link, x.lost, x.in = l, nil, io.LimitedReader{R: x, N: grpcMaxFrames}
	x.br.Reset(&x.in)
	x.reply.begin()
	x.framer = http2.NewFramer(&x.out, x.br)
	x.framer.SetReuseFrames()
	x.framer.SetMaxReadFrameSize(grpcFrame)
	x.framer.MaxHeaderListSize = grpcMaxHeaders
	x.framer.ReadMetaHeaders = l.decoder
}

func (x *grpcExchange) release() {
	x.link, x.in.R, x.framer = nil, nil, nil
	x.out.Reset()
	if x.out.Cap() > keepBody {
		x.out = bytes.Buffer{}
	}
	if cap(x.reply.data) > keepBody {
		x.reply.data = nil
	}
}

// writeRequest writes the request to out, which does not fail. Before the first one comes the beginning of a
// connection.
func (x *grpcExchange) writeRequest(r *grpcRequest, deadline time.Time) {
	l := x.link
	if l.isNew() {
		x.out.WriteString(http2.ClientPreface)
		_ = x.framer.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: grpcMaxHeaders})
	}
	if l.received > 0 {
		_ = x.framer.WriteWindowUpdate(0, l.received)
		l.received = 0
	}
	l.nextStream()
	x.headers = appendTimeout(append(x.headers[:0], r.headers...), time.Until(deadline))
	_ = x.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: l.stream, BlockFragment: x.headers, EndHeaders: true})
	message := r.message
	l.window -= int64(len(message))
	for len(message) > grpcFrame {
		_ = x.framer.WriteData(l.stream, false, message[:grpcFrame])
		message = message[grpcFrame:]
	}
	_ = x.framer.WriteData(l.stream, true, message)
}

// Read implements io.Reader: before healthd waits for the server, it sends what the server may wait for.
func (x *grpcExchange) Read(b []byte) (int, error) {
	if err := x.flush(); err != nil {
		return 0, err
	}
	if n := copy(b, x.link.rest); n > 0 {
		x.link.rest = x.link.rest[n:]
		return n, nil
	}
	n, err := x.link.conn.Read(b)
	if errors.Is(err, io.EOF) && x.lost != nil {
		return n, x.lost // the kernel reports it once
	}
	return n, err
}

// flush sends what is in out. That the server reads no more is for Read to report: it may have said why.
func (x *grpcExchange) flush() error {
	if x.out.Len() == 0 {
		return nil
	}
	_, err := x.out.WriteTo(x.link.conn)
	x.out.Reset()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		x.lost = err
		return nil
	}
	return err
}

// readSettings reads the first frame of a server.
func (x *grpcExchange) readSettings() error {
	if head, _ := x.br.Peek(2); isTLSRecord(head) {
		return errors.New("error reading server preface: the server wants TLS (tls = {}?)")
	}
	frame, err := x.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("error reading server preface: %w", bare(err))
	}
	if _, ok := frame.(*http2.SettingsFrame); !ok {
		return fmt.Errorf("initial http2 frame from server is not a settings frame: %T", frame)
	}
	return x.take(frame)
}

// readReply reads until the call has ended. An error is why the connection ended before.
func (x *grpcExchange) readReply() error {
	for !x.reply.ended {
		frame, err := x.framer.ReadFrame()
		broken, ok := errors.AsType[http2.StreamError](err)
		switch {
		case err == nil:
			if err := x.take(frame); err != nil {
				return err
			}
		case ok && broken.StreamID == x.link.stream:
			x.reply.came = true
			x.reply.malformed(broken.Code, x.framer.ErrorDetail())
		case ok: // of no call
		case x.in.N <= 0:
			x.reply.fail(codes.ResourceExhausted, "no end of the reply within %d bytes", grpcMaxFrames)
		default:
			return fmt.Errorf("error reading from server: %w", bare(err))
		}
	}
	return nil
}

// take does what a frame asks for. An error means that the connection is of no more use for the call.
func (x *grpcExchange) take(frame http2.Frame) error {
	l := x.link
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			l.settings(f)
			return x.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return x.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		l.draining = true
		// A server may have stopped to answer long after it said that it takes later calls: the connection was not read.
		left := l.stream > 1 && !x.reply.came
		if left || f.LastStreamID < l.stream {
			return errDraining
		}
	case *http2.PushPromiseFrame:
		return errors.New("received PUSH_PROMISE, which the client has switched off")
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			l.grow(f.Increment)
		}
	case *http2.DataFrame:
		l.received += f.Length
		x.takeReply(frame)
	default:
		x.takeReply(frame)
	}
	return nil
}

// takeReply takes a frame that is perhaps one of the reply.
func (x *grpcExchange) takeReply(frame http2.Frame) {
	if frame.Header().StreamID != x.link.stream {
		return
	}
	x.reply.came = true
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		x.reply.headers(f)
	case *http2.DataFrame:
		x.reply.body(f)
	case *http2.RSTStreamFrame:
		x.reply.reset(f.ErrCode)
	}
}

// bare returns the number of an error without the addresses that package net adds: a new one each time
// would make each failure another one.
func bare(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
