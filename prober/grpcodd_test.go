package prober

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// h2Conn is a server's end of a connection with a call.
type h2Conn struct {
	net.Conn
	*http2.Framer
	stream  uint32
	acks    int   // of its settings
	granted int64 // bytes of data, by WINDOW_UPDATE of the connection
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newH2Conn(c net.Conn) *h2Conn {
	h := &h2Conn{Conn: c, Framer: http2.NewFramer(c, c), stream: 1}
	h.AllowIllegalWrites = true
	h.encoder = hpack.NewEncoder(&h.block)
	return h
}

// h2Server answers each call as script does, and then waits until the client closes.
func h2Server(t *testing.T, script func(*h2Conn)) (port int) {
	t.Helper()
	return rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
		h := newH2Conn(c)
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		_ = h.WriteSettings()
		h.await(func(f http2.Frame) bool {
			d, ok := f.(*http2.DataFrame)
			h.stream = f.Header().StreamID
			return ok && d.StreamEnded()
		})
		script(h)
		_, _ = io.Copy(io.Discard, c)
	})
}

// await reads frames until one is wanted or the client has closed.
func (c *h2Conn) await(wanted func(http2.Frame) bool) {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		if s, ok := f.(*http2.SettingsFrame); ok && s.IsAck() {
			c.acks++
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 0 {
			c.granted += int64(w.Increment)
		}
		if wanted(f) {
			return
		}
	}
}

// reset ends the connection at once.
func (c *h2Conn) reset() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// settled waits until the client has acknowledged so many settings.
func (c *h2Conn) settled(n int) {
	if c.acks < n {
		c.await(func(http2.Frame) bool { return c.acks == n })
	}
}

// fields returns a header block of names and values.
func (c *h2Conn) fields(nameValues ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(nameValues); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: nameValues[i], Value: nameValues[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

func (c *h2Conn) headers(last bool, nameValues ...string) {
	block := c.fields(nameValues...)
	n := min(len(block), 16<<10)
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: last})
	for n < len(block) {
		part := block[n:min(len(block), n+16<<10)]
		n += len(part)
		_ = c.WriteContinuation(c.stream, n == len(block), part)
	}
}

func (c *h2Conn) begin() { c.headers(false, ":status", "200", "content-type", "application/grpc") }

func (c *h2Conn) data(b []byte) { _ = c.WriteData(c.stream, false, b) }

func (c *h2Conn) trailers(nameValues ...string) { c.headers(true, nameValues...) }

// ok is a complete reply.
func (c *h2Conn) ok() {
	c.begin()
	c.data(serving)
	c.trailers("grpc-status", "0")
}

// reply is a reply of headers, bytes and trailers.
func reply200(data string, trailers ...string) func(*h2Conn) {
	return func(c *h2Conn) {
		c.begin()
		if data != "" {
			c.data([]byte(data))
		}
		c.trailers(trailers...)
	}
}

// only is a reply of one header block.
func only(nameValues ...string) func(*h2Conn) {
	return func(c *h2Conn) { c.trailers(nameValues...) }
}

func grpcMessage(flag byte, message string) string {
	return string([]byte{flag, 0, 0, byte(len(message) >> 8), byte(len(message))}) + message
}

var serving = []byte(grpcMessage(0, "\b\x01"))

// detailed returns the value of grpc-status-details-bin.
func detailed(tb testing.TB, code int32, message string) string {
	tb.Helper()
	p := status.New(0, "").Proto()
	p.Code, p.Message = code, message
	b, err := proto.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

// addresses are what package net adds to errors.
var addresses = regexp.MustCompile(`(read|write) tcp \S+->\S+: (read|write): `)

// oddGRPCReply is a reply, the cause of its result and a part of the output.
type oddGRPCReply struct {
	name  string
	serve func(*h2Conn)
	want  string
}

func oddGRPCReplies(tb testing.TB) []oddGRPCReply {
	tb.Helper()
	long := strings.Repeat("x", 20<<10)
	return []oddGRPCReply{
		{"usual reply", (*h2Conn).ok, " service healthy"},
		{"content type with a format", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "application/grpc+proto")
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"HTTP status of a failure", func(c *h2Conn) {
			c.headers(false, ":status", "500", "content-type", "application/grpc;x")
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"padding", func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields(":status", "200", "content-type", "application/grpc"), EndHeaders: true, PadLength: 200})
			_ = c.WriteDataPadded(c.stream, false, nil, make([]byte, 255))
			_ = c.WriteDataPadded(c.stream, false, serving, make([]byte, 255))
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"priority", func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields(":status", "200", "content-type", "application/grpc"), EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 3, Weight: 9}})
			_ = c.WritePriority(c.stream, http2.PriorityParam{StreamDep: 5})
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"continuations", func(c *h2Conn) {
			block := c.fields(":status", "200", "content-type", "application/grpc", "a", "b")
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: block[:3]})
			_ = c.WriteContinuation(c.stream, false, block[3:4])
			_ = c.WriteContinuation(c.stream, false, nil)
			_ = c.WriteContinuation(c.stream, true, block[4:])
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"message a byte at a time", func(c *h2Conn) {
			c.begin()
			for i := range serving {
				c.data(serving[i : i+1])
				c.data(nil)
			}
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"headers that later ones refer to", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-status", "0")
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"early hints", func(c *h2Conn) {
			c.headers(false, ":status", "103", "link", "x")
			c.headers(false, ":status", "100")
			c.ok()
		}, " service healthy"},
		{"early hints that end", only(":status", "103"), `status error: health rpc probe failed: rpc error: code = Internal desc = protocol error: informational header with status code 103 must not have END_STREAM set`},
		{"other frames between", func(c *h2Conn) {
			_ = c.WritePing(false, [8]byte{1})
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}, http2.Setting{ID: 99, Val: 1})
			c.begin()
			_ = c.WriteWindowUpdate(0, 1000)
			_ = c.WriteWindowUpdate(c.stream, 1000)
			_ = c.WriteRawFrame(0xbb, 0xff, c.stream, []byte("unknown"))
			c.data(serving)
			_ = c.WritePing(true, [8]byte{2})
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"frames of other streams", func(c *h2Conn) {
			_ = c.WriteData(99, true, serving)
			_ = c.WriteRSTStream(99, http2.ErrCodeInternal)
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 99, BlockFragment: c.fields(":status", "500", "x", "y"), EndHeaders: true})
			_ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, 99, make([]byte, 4))
			c.ok()
		}, " service healthy"},
		{"server that waits for its ping", func(c *h2Conn) {
			_ = c.WritePing(false, [8]byte{7})
			c.await(func(f http2.Frame) bool {
				ping, ok := f.(*http2.PingFrame)
				return ok && ping.IsAck() && ping.Data == [8]byte{7}
			})
			c.ok()
		}, " service healthy"},
		{"server that waits for its settings", func(c *h2Conn) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			c.settled(2)
			c.ok()
		}, " service healthy"},
		{"message before headers", func(c *h2Conn) {
			c.data(serving)
			c.begin()
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"message before trailers alone", func(c *h2Conn) {
			c.data(serving)
			c.trailers(":status", "200", "content-type", "application/grpc", "grpc-status", "0")
		}, " service healthy"},
		{"more in a message", reply200(grpcMessage(0, "\b\x02\x12\x02ab\b\x01"), "grpc-status", "0"), " service healthy"},

		{"NOT_SERVING", reply200(grpcMessage(0, "\b\x02"), "grpc-status", "0"), `status service unhealthy (responded with "NOT_SERVING")`},
		{"SERVICE_UNKNOWN", reply200(grpcMessage(0, "\b\x03"), "grpc-status", "0"), `status service unhealthy (responded with "SERVICE_UNKNOWN")`},
		{"empty message", reply200(grpcMessage(0, ""), "grpc-status", "0"), `status service unhealthy (responded with "UNKNOWN")`},
		{"no such status", reply200(grpcMessage(0, "\b\x63"), "grpc-status", "0"), `status service unhealthy (responded with "99")`},
		{"not protobuf", reply200(grpcMessage(0, "\xff\xff"), "grpc-status", "0"), "status error: health rpc probe failed: rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "},
		{"text for a number", reply200(grpcMessage(0, "\n\x01x"), "grpc-status", "0"), `status service unhealthy (responded with "UNKNOWN")`},
		{"no message", reply200("", "grpc-status", "0"), "status error: health rpc probe failed: rpc error: code = Internal desc = cardinality violation: received no response message from non-server-streaming RPC"},
		{"two messages", reply200(strings.Repeat(string(serving), 2), "grpc-status", "0"), "status error: health rpc probe failed: rpc error: code = Internal desc = cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message"},
		{"half a prefix", reply200("\x00\x00", "grpc-status", "0"), "status error: health rpc probe failed: rpc error: code = Internal desc = unexpected EOF"},
		{"half a message", reply200(string(serving[:6]), "grpc-status", "5"), "status error: health rpc probe failed: rpc error: code = Internal desc = unexpected EOF"},
		{"half another message", reply200(string(serving)+"\x00", "grpc-status", "0"), "status error: health rpc probe failed: rpc error: code = Internal desc = unexpected EOF"},
		{"compressed without an encoding", reply200(grpcMessage(1, "\b\x01"), "grpc-status", "0"), "code = Internal desc = grpc: compressed flag set with identity or empty encoding"},
		{"compressed", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "zip")
			c.data([]byte(grpcMessage(1, "\b\x01")))
			c.trailers("grpc-status", "0")
		}, `code = Internal desc = grpc: Decompressor is not installed for grpc-encoding "zip"`},
		{"encoding that is not used", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "zip")
			c.data(serving)
			c.trailers("grpc-status", "0")
		}, " service healthy"},
		{"unknown flag", reply200(grpcMessage(2, "\b\x01"), "grpc-status", "0"), "code = Internal desc = grpc: received unexpected payload format 2"},
		{"10 KiB", reply200(grpcMessage(0, strings.Repeat("\x1a\x7e"+long[:126], 80)), "grpc-status", "0"), `responded with "UNKNOWN"`},
		{"a byte more", func(c *h2Conn) {
			c.begin()
			c.data([]byte{0, 0, 0, 0x28, 1}) // more than that need not come
		}, "code = ResourceExhausted desc = grpc: received message larger than max (10241 vs. 10240)"},
		{"4 GiB", reply200("\x00\xff\xff\xff\xff", "grpc-status", "0"), "code = ResourceExhausted desc = grpc: received message larger than max (4294967295 vs. 10240)"},
		{"no trailers", func(c *h2Conn) {
			c.begin()
			_ = c.WriteData(c.stream, true, serving)
		}, "status error: health rpc probe failed: rpc error: code = Internal desc = server closed the stream without sending trailers"},

		{"status alone", only(":status", "200", "content-type", "application/grpc", "grpc-status", "5", "grpc-message", "unknown service"), "status error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"},
		{"status after a message", reply200(string(serving), "grpc-status", "14", "grpc-message", "later"), "status error: health rpc probe failed: rpc error: code = Unavailable desc = later"},
		{"Unimplemented", only(":status", "200", "content-type", "application/grpc", "grpc-status", "12", "grpc-message", "no"), "protocol error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no"},
		{"DeadlineExceeded", only(":status", "200", "content-type", "application/grpc", "grpc-status", "4"), "timeout timeout: health rpc did not complete within 1m0s"},
		{"OK alone", only(":status", "200", "content-type", "application/grpc", "grpc-status", "0"), "code = Internal desc = cardinality violation: received no response message"},
		{"no status", reply200(string(serving), "x", "y"), "status error: health rpc probe failed: rpc error: code = Unknown desc = "},
		{"status of words", reply200(string(serving), "grpc-status", "OK"), `code = Unknown desc = transport: malformed grpc-status: strconv.ParseInt: parsing "OK": invalid syntax`},
		{"unknown status", reply200(string(serving), "grpc-status", "999"), "code = Code(999) desc = "},
		{"negative status", reply200(string(serving), "grpc-status", "-1"), "code = Code(4294967295) desc = "},
		{"two statuses", reply200(string(serving), "grpc-status", "3", "grpc-status", "0"), " service healthy"},
		{"escapes", only(":status", "200", "content-type", "application/grpc", "grpc-status", "2", "grpc-message", "a%20b%C3%A4%zz%4%"), "desc = a bä%zz%4%"},
		{"escapes that are not UTF-8", only(":status", "200", "content-type", "application/grpc", "grpc-status", "2", "grpc-message", "a%ffb"), "desc = a\uFFFDb"},
		{"long message", only(":status", "200", "content-type", "application/grpc", "grpc-status", "2", "grpc-message", long), "desc = xxx"},
		{"details", only(":status", "200", "content-type", "application/grpc", "grpc-status", "2", "grpc-message", "short", "grpc-status-details-bin", detailed(tb, 2, "from the details")), "code = Unknown desc = from the details"},
		{"details of another status", reply200(string(serving), "grpc-status", "0", "grpc-status-details-bin", detailed(tb, 2, "no")), `code = Internal desc = grpc-status-details-bin mismatch: grpc-status=OK, grpc-message="", grpc-status-details-bin=`},
		{"details twice", reply200(string(serving), "grpc-status", "0", "grpc-status-details-bin", detailed(tb, 2, "no"), "grpc-status-details-bin", detailed(tb, 2, "no")), " service healthy"},
		{"details that are none", reply200(string(serving), "grpc-status", "0", "grpc-status-details-bin", "////"), " service healthy"},
		{"padded base 64", reply200(string(serving), "grpc-status", "0", "x-bin", "YQ=="), " service healthy"},
		{"not base 64", reply200(string(serving), "grpc-status", "0", "x-bin", "!"), "code = Internal desc = transport: malformed x-bin: illegal base64 data at input byte 0"},
		{"not base 64 in headers", only(":status", "200", "content-type", "application/grpc", "grpc-status", "0", "x-bin", "YQ="), "code = Internal desc = transport: malformed x-bin"},

		{"a web page", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "text/html")
			_ = c.WriteData(c.stream, true, []byte("<html>"))
		}, "status error: health rpc probe failed: rpc error: code = Unknown desc = unexpected HTTP status code received from server: 200 (OK); transport: received unexpected content-type \"text/html\"\ndata: \"<html>\""},
		{"a long web page", func(c *h2Conn) {
			c.headers(false, ":status", "503", "content-type", "text/html")
			c.data([]byte(long[:1000]))
			c.data([]byte(long[:1000]))
		}, "status error: health rpc probe failed: rpc error: code = Unavailable desc = unexpected HTTP status code received from server: 503 (Service Unavailable); transport: received unexpected content-type \"text/html\"\ndata: \"xxx"},
		{"a long page before its headers", func(c *h2Conn) {
			c.data([]byte("\x00\x00\x00\x20\x00" + long[:2000]))
			c.headers(false, ":status", "200", "content-type", "text/html")
			_ = c.WriteData(c.stream, true, []byte("<html>"))
		}, "code = Unknown desc = unexpected HTTP status code received from server: 200 (OK); transport: received unexpected content-type \"text/html\"\ndata: \"<html>\""},
		{"a web page with trailers", func(c *h2Conn) {
			c.headers(false, ":status", "403", "grpc-status", "0")
			c.data([]byte("a"))
			c.headers(false, ":status", "200", "content-type", "application/grpc") // too late
			c.trailers("grpc-status", "0")
		}, "code = PermissionDenied desc = unexpected HTTP status code received from server: 403 (Forbidden); malformed header: missing HTTP content-type\ndata: \"a\""},
		{"not found", only(":status", "404"), "protocol error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unexpected HTTP status code received from server: 404 (Not Found); malformed header"},
		{"bad request", only(":status", "400"), "code = Internal desc = unexpected HTTP status code"},
		{"unauthorized", only(":status", "401"), "code = Unauthenticated desc = unexpected HTTP status code"},
		{"too many requests", only(":status", "429"), "code = Unavailable desc = unexpected HTTP status code"},
		{"bad gateway", only(":status", "502"), "code = Unavailable desc = unexpected HTTP status code"},
		{"gateway timeout", only(":status", "504"), "code = Unavailable desc = unexpected HTTP status code"},
		{"no HTTP status", only("x", "y"), "code = Internal desc = malformed header: missing HTTP status; malformed header: missing HTTP content-type"},
		{"HTTP status of words", only(":status", "fine"), `code = Internal desc = transport: malformed http-status: strconv.Atoi: parsing "fine": invalid syntax`},
		{"nearly the content type", only(":status", "200", "content-type", "application/grpcs", "grpc-status", "0"), `code = Unknown desc = unexpected HTTP status code received from server: 200 (OK); transport: received unexpected content-type "application/grpcs"`},
		{"two content types", func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "text/html", "content-type", "application/grpc", "content-type", "text/html")
			c.data(serving)
			c.trailers("grpc-status", "0", "content-type", "text/html")
		}, " service healthy"},

		{"headers again", func(c *h2Conn) {
			c.begin()
			c.begin()
		}, "code = Internal desc = a HEADERS frame cannot appear in the middle of a stream"},
		{"long headers", only(":status", "200", "content-type", "application/grpc", "a", long[:15<<10], "b", long, "grpc-status", "0"), "code = Internal desc = cardinality violation"},
		{"longer headers", only(":status", "200", "content-type", "application/grpc", "a", long, "b", long, "c", long, "d", long, "grpc-status", "0"), "code = Internal desc = peer header list size exceeded limit"},
		{"upper case", only(":status", "200", "content-type", "application/grpc", "A", "b"), `code = Internal desc = invalid header field name "A"`},
		{"line feed", only(":status", "200", "content-type", "application/grpc", "a", "b\nc"), `code = Internal desc = invalid header field value for "a"`},
		{"pseudo-header of requests", only(":status", "200", ":path", "/"), "code = Internal desc = "},
		{"pseudo-header after others", only("content-type", "application/grpc", ":status", "200"), "code = Internal desc = "},
		{"reset", func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, http2.ErrCodeInternal) }, "status error: health rpc probe failed: rpc error: code = Internal desc = stream terminated by RST_STREAM with error code: INTERNAL_ERROR"},
		{"cancelled", func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, http2.ErrCodeCancel) }, "code = Canceled desc = stream terminated by RST_STREAM with error code: CANCEL"},
		{"no error", func(c *h2Conn) {
			c.begin()
			c.data(serving)
			_ = c.WriteRSTStream(c.stream, http2.ErrCodeNo)
		}, "code = Internal desc = stream terminated by RST_STREAM with error code: NO_ERROR"},
		{"calm", func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, http2.ErrCodeEnhanceYourCalm) }, "code = ResourceExhausted desc = "},
		{"security", func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, http2.ErrCodeInadequateSecurity) }, "code = PermissionDenied desc = "},
		{"unknown error", func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, 99) }, "code = Unknown desc = stream terminated by RST_STREAM with error code: unknown error code 0x63"},
		{"no window", func(c *h2Conn) { _ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, c.stream, make([]byte, 4)) }, "code = Internal desc = received invalid frame"},

		{"draining after this call", func(c *h2Conn) {
			_ = c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
			_ = c.WriteGoAway(c.stream, http2.ErrCodeNo, nil)
			c.ok()
		}, " service healthy"},
		{"end of the connection", func(c *h2Conn) {
			c.settled(1)
			_ = c.Close()
		}, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: EOF"},
		{"end amid a frame", func(c *h2Conn) {
			c.settled(1)
			_, _ = c.Write([]byte{0, 0, 9, 0})
			_ = c.Close()
		}, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: "},
		{"end after the message", func(c *h2Conn) {
			c.begin()
			c.data(serving)
			_ = c.Close()
		}, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: "},
		{"reset of the connection", func(c *h2Conn) {
			c.settled(1)
			c.reset()
		}, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: connection reset by peer"},
		{"frame that is too large", func(c *h2Conn) { _ = c.WriteData(c.stream, false, make([]byte, 16<<10+1)) }, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: http2: frame too large"},
		{"data of no stream", func(c *h2Conn) { _ = c.WriteRawFrame(http2.FrameData, 0, 0, nil) }, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: connection error: PROTOCOL_ERROR"},
		{"padding that is too long", func(c *h2Conn) { _ = c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, c.stream, []byte{9, 0}) }, "desc = error reading from server: connection error: PROTOCOL_ERROR"},
		{"continuation of nothing", func(c *h2Conn) { _ = c.WriteRawFrame(http2.FrameContinuation, 0, c.stream, nil) }, "desc = error reading from server: connection error: PROTOCOL_ERROR"},
		{"no continuation", func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields(":status", "200")})
			c.data(nil)
		}, "desc = error reading from server: connection error: PROTOCOL_ERROR"},
		{"headers that are not compressed well", func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}, "desc = error reading from server: connection error: COMPRESSION_ERROR"},
		{"settings of a wrong length", func(c *h2Conn) { _ = c.WriteRawFrame(http2.FrameSettings, 0, 0, []byte{1}) }, "desc = error reading from server: connection error: FRAME_SIZE_ERROR"},
	}
}

// TestGRPCOddReplies compares the probe with grpc-go's client.
func TestGRPCOddReplies(t *testing.T) {
	for _, tt := range oddGRPCReplies(t) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantLikeLibrary(t, h2Server(t, tt.serve), tt.want)
		})
	}
}

// A server of TLS answers plain HTTP/2 with an alert. The library does not say what that is.
func TestGRPCAtATLSPort(t *testing.T) {
	t.Parallel()
	port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		_, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x46")
		_, _ = io.Copy(io.Discard, c)
	})
	r := ask(t, Handler{GRPC: &GRPC{Port: port}})
	wantOutput(t, r, "error reading server preface: the server wants TLS (tls = {}?)")
}

// TestGRPCOddServers is TestGRPCOddReplies for servers that do not get to a reply.
func TestGRPCOddServers(t *testing.T) {
	greeted := func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		_, _ = http2.NewFramer(c, c).ReadFrame()
	}
	drained := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for _, tt := range []struct {
		name    string
		serve   func(c net.Conn)
		timeout time.Duration
		want    string
	}{
		{"end", greeted, longTimeout, "protocol error: health rpc probe failed: rpc error: code = Unavailable desc = connection error: desc = \"error reading server preface: "},
		{"half of a frame", func(c net.Conn) {
			greeted(c)
			_, _ = c.Write([]byte{0, 0, 9, 4, 0, 0, 0, 0, 0})
		}, longTimeout, "connection error: desc = \"error reading server preface: "},
		{"server of HTTP/1", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			drained(c)
		}, longTimeout, "protocol error: health rpc probe failed: rpc error: code = Unavailable desc = connection error: desc = \"error reading server preface: http2: failed reading the frame payload: http2: frame too large, note that the frame header looked like an HTTP/1.1 header\""},
		{"garbage", func(c net.Conn) {
			_, _ = c.Write(make([]byte, 9))
			drained(c)
		}, longTimeout, "desc = \"error reading server preface: connection error: PROTOCOL_ERROR\""},
		{"another frame first", func(c net.Conn) {
			_ = http2.NewFramer(c, c).WritePing(false, [8]byte{})
			drained(c)
		}, longTimeout, "desc = \"initial http2 frame from server is not a settings frame: *http2.PingFrame\""},
		{"an acknowledgement first", func(c net.Conn) {
			_ = http2.NewFramer(c, c).WriteSettingsAck()
			drained(c)
		}, shortTimeout, "timeout timeout: health rpc did not complete within 150ms"},
		{"nothing", drained, shortTimeout, "timeout timeout: failed to connect service \"127.0.0.1:"},
		{"half of the settings", func(c net.Conn) {
			_, _ = c.Write([]byte{0, 0, 6, 4})
			drained(c)
		}, shortTimeout, "timeout timeout: failed to connect service \"127.0.0.1:"},
		{"settings alone", func(c net.Conn) {
			_ = http2.NewFramer(c, c).WriteSettings()
			drained(c)
		}, shortTimeout, "timeout timeout: health rpc did not complete within 150ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { tt.serve(c) })
			if tt.timeout == shortTimeout {
				wantLikeLibraryBriefly(t, port, tt.want)
				return
			}
			wantLikeLibrary(t, port, tt.want)
		})
	}
	for name, script := range map[string]func(*h2Conn){
		"nothing after the headers": (*h2Conn).begin,
		"nothing amid the headers": func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields(":status", "200")})
		},
		"nothing after the message": func(c *h2Conn) {
			c.begin()
			c.data(serving)
		},
		"nothing after early hints": func(c *h2Conn) { c.headers(false, ":status", "103") },
		"an odd GOAWAY":             func(c *h2Conn) { _ = c.WriteGoAway(2, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantLikeLibraryBriefly(t, h2Server(t, script), "timeout timeout: health rpc did not complete within 150ms")
		})
	}
}

// A server that closes before healthd can write is no other than one that closes after.
func TestGRPCClosedAtOnce(t *testing.T) {
	for _, linger := range []int{-1, 0} {
		port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { _ = c.(*net.TCPConn).SetLinger(linger) })
		for range 50 {
			r := ask(t, Handler{GRPC: &GRPC{Port: port}})
			wantResult(t, r, Failure, Protocol)
			wantOutput(t, r, `rpc error: code = Unavailable desc = connection error: desc = "error reading server preface: `)
		}
	}
}

// A call that the server has not begun with is made once more.
func TestGRPCUnprocessed(t *testing.T) {
	goAway := func(c *h2Conn) { _ = c.WriteGoAway(0, http2.ErrCodeNo, nil) }
	refuse := func(c *h2Conn) { _ = c.WriteRSTStream(c.stream, http2.ErrCodeRefusedStream) }
	for _, tt := range []struct {
		name   string
		script func(*h2Conn)
		bad    int64 // of the first calls
		want   string
	}{
		{"GOAWAY", goAway, 1, " service healthy"},
		{"GOAWAY twice", goAway, 2, "reset error: health rpc probe failed: rpc error: code = Unavailable desc = the connection is draining"},
		{"refused", refuse, 1, " service healthy"},
		{"refused twice", refuse, 2, "status error: health rpc probe failed: rpc error: code = Unavailable desc = stream terminated by RST_STREAM with error code: REFUSED_STREAM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			port := h2Server(t, func(c *h2Conn) {
				if calls.Add(1) <= tt.bad {
					tt.script(c)
					return
				}
				c.ok()
			})
			r := ask(t, Handler{GRPC: &GRPC{Port: port}})
			if got := string(r.Cause) + " " + r.Output; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if want := min(2, tt.bad+1); calls.Load() != want {
				t.Errorf("called %d times, want %d", calls.Load(), want)
			}
		})
	}
}

// wantLikeLibrary fails unless the probe and grpc-go's client take the server of a port for the same.
func wantLikeLibrary(t *testing.T, port int, want string) {
	t.Helper()
	if err := differsFromLibrary(t, port, longTimeout, want); err != nil {
		t.Error(err)
	}
}

func wantLikeLibraryBriefly(t *testing.T, port int, want string) {
	t.Helper()
	briefly(t, func(timeout time.Duration) error {
		return differsFromLibrary(t, port, timeout, withTimeout(want, timeout))
	})
}

func differsFromLibrary(t *testing.T, port int, timeout time.Duration, want string) error {
	t.Helper()
	h := &GRPC{Port: port}
	theirs := newLibraryProbe(t, h, loopback).Ask(t.Context(), timeout)
	ours := mustProbe(t, Config{UserAgent: "healthd/1.0"}, Handler{GRPC: h}, loopback).Ask(t.Context(), timeout)
	// Without the addresses, and the same for a connection that ends while something is on its way there.
	text := func(r Result) string {
		return strings.ReplaceAll(addresses.ReplaceAllString(r.Output, ""), "connection reset by peer", "EOF")
	}
	if strings.Contains(theirs.Output, "desc = error reading from server: ") {
		theirs.Cause = Reset // the channel may notice late
	}
	if ours.Outcome != theirs.Outcome || ours.Cause != theirs.Cause || text(ours) != text(theirs) {
		return fmt.Errorf("got %v %s %q\nwant %v %s %q, as grpc-go", ours.Outcome, ours.Cause, ours.Output, theirs.Outcome, theirs.Cause, theirs.Output)
	}
	if got := string(ours.Cause) + " " + ours.Output; !strings.Contains(got, want) {
		return fmt.Errorf("got %q, want %q in it", got, want)
	}
	return differs(ours, ours.Outcome, ours.Cause, "")
}
