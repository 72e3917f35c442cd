package prober

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// grpcShown is how much of a reply that is not gRPC's a result shows, in bytes.
	grpcShown = 1 << 10
	// grpcPrefix is how many bytes come before a message: one that says whether it is compressed, and
	// four for its length.
	grpcPrefix = 5
)

// grpcReply is what the frames of a call have said so far. It takes them as grpc-go does, and says it in
// the same words, which people find when they search for them.
type grpcReply struct {
	ended bool
	end   *status.Status // nil: OK
	// refused says that the server has not begun with the call.
	refused bool
	came    bool // a frame of the reply, whatever it says

	begun    bool           // the headers of a gRPC reply came
	encoding string         // of its messages
	foreign  *status.Status // of a reply that is not gRPC's
	received uint32         // bytes of data frames
	data     []byte         // what came after the last message, or the body of a foreign reply
	answered bool
	serving  healthpb.HealthCheckResponse_ServingStatus // if answered
}

func (r *grpcReply) begin() { *r = grpcReply{data: r.data[:0]} }

// finish ends the call with a status, unless it has ended.
func (r *grpcReply) finish(s *status.Status) {
	if !r.ended {
		r.ended, r.end = true, s
	}
}

func (r *grpcReply) fail(code codes.Code, format string, args ...any) {
	r.finish(status.Newf(code, format, args...))
}

// reset takes an RST_STREAM frame.
func (r *grpcReply) reset(code http2.ErrCode) {
	r.refused = code == http2.ErrCodeRefusedStream
	r.fail(codeOf(code), "stream terminated by RST_STREAM with error code: %v", code)
}

// malformed takes a frame that breaks the rules of HTTP/2 for its stream.
func (r *grpcReply) malformed(code http2.ErrCode, why error) {
	if why == nil {
		why = errors.New("received invalid frame")
	}
	r.fail(codeOf(code), "%v", why)
}

// body takes a DATA frame.
func (r *grpcReply) body(f *http2.DataFrame) {
	if r.received += f.Length; r.received > grpcWindow {
		r.fail(codes.Internal, "received %d-bytes data exceeding the limit %d bytes", r.received, grpcWindow)
		return
	}
	if r.foreign != nil {
		r.data = append(r.data, f.Data()[:min(len(f.Data()), grpcShown-len(r.data))]...)
		if len(r.data) == grpcShown || f.StreamEnded() {
			r.finishForeign()
		}
		return
	}
	r.data = append(r.data, f.Data()...)
	if r.begun {
		r.messages()
	}
	if f.StreamEnded() {
		r.close(status.New(codes.Internal, "server closed the stream without sending trailers"))
	}
}

// headers takes a complete header block.
func (r *grpcReply) headers(f *http2.MetaHeadersFrame) {
	last := f.StreamEnded()
	switch {
	case r.begun && !last:
		r.fail(codes.Internal, "a HEADERS frame cannot appear in the middle of a stream")
		return
	case f.Truncated:
		r.fail(codes.Internal, "peer header list size exceeded limit")
		return
	case r.foreign != nil:
		if last {
			r.finishForeign()
		}
		return
	}
	h, err := readGRPCHeaders(f.Fields)
	switch {
	case err != nil:
		r.finish(err)
	case !h.grpc && !r.begun:
		r.foreignHeaders(h, last)
	case h.malformed != "":
		r.fail(codes.Internal, "%s", h.malformed)
	case last:
		r.close(h.status())
	default:
		r.begun, r.encoding = true, h.encoding
		r.messages()
	}
}

// messages reads the messages that are complete.
func (r *grpcReply) messages() {
	for !r.ended && len(r.data) >= grpcPrefix {
		flag, size := r.data[0], binary.BigEndian.Uint32(r.data[1:grpcPrefix])
		if size > grpcMaxReply {
			r.fail(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, grpcMaxReply)
			return
		}
		end := grpcPrefix + int(size)
		if len(r.data) < end {
			return
		}
		r.message(flag, r.data[grpcPrefix:end])
		r.data = append(r.data[:0], r.data[end:]...)
	}
}

func (r *grpcReply) message(flag byte, b []byte) {
	var m healthpb.HealthCheckResponse
	switch {
	case flag > 1:
		r.fail(codes.Internal, "grpc: received unexpected payload format %d", flag)
		return
	case flag == 1 && (r.encoding == "" || r.encoding == "identity"):
		r.fail(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
		return
	case flag == 1: // healthd accepts no encoding
		r.fail(codes.Internal, "grpc: Decompressor is not installed for grpc-encoding %q", r.encoding)
		return
	}
	if err := proto.Unmarshal(b, &m); err != nil {
		r.fail(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
		return
	}
	if r.answered {
		r.fail(codes.Internal, "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message")
	}
	r.answered, r.serving = true, m.GetStatus()
}

// close takes the end of the stream, with the status that it has.
func (r *grpcReply) close(s *status.Status) {
	r.messages()
	switch {
	case len(r.data) > 0:
		r.fail(codes.Internal, "%v", io.ErrUnexpectedEOF)
	case s.Code() != codes.OK:
		r.finish(s)
	case !r.answered:
		r.fail(codes.Internal, "cardinality violation: received no response message from non-server-streaming RPC")
	}
	r.finish(nil)
}

// foreignHeaders takes the first headers of a reply that is not gRPC's.
func (r *grpcReply) foreignHeaders(h grpcHeaders, last bool) {
	code, err := strconv.Atoi(h.httpStatus)
	if err != nil || code/100 != 1 {
		r.data = r.data[:0] // what came before these headers is not of the body
	}
	switch {
	case h.httpStatus == "":
		r.foreign = status.New(codes.Internal, "malformed header: missing HTTP status; "+h.contentType)
	case err != nil:
		r.fail(codes.Internal, "transport: malformed http-status: %v", err)
	case code/100 == 1 && last:
		r.fail(codes.Internal, "protocol error: informational header with status code %d must not have END_STREAM set", code)
	case code/100 == 1: // more headers follow
	default:
		r.foreign = status.Newf(codeOfHTTP(code), "unexpected HTTP status code received from server: %d (%s); %s", code, http.StatusText(code), h.contentType)
	}
	if last {
		r.finish(r.foreign)
	}
}

// finishForeign ends a reply that is not gRPC's, of which the result shows the body.
func (r *grpcReply) finishForeign() {
	r.fail(r.foreign.Code(), "%s\ndata: %q", r.foreign.Message(), r.data)
}

// grpcHeaders is what a header block says.
type grpcHeaders struct {
	grpc        bool   // the reply is gRPC's
	httpStatus  string // empty: missing
	contentType string // what is wrong with it
	encoding    string
	code        codes.Code
	message     string
	details     []string
	malformed   string // what is wrong with a binary header
}

// readGRPCHeaders reads headers. An error is what is wrong with grpc-status.
func readGRPCHeaders(fields []hpack.HeaderField) (grpcHeaders, *status.Status) {
	h := grpcHeaders{code: codes.Unknown, contentType: "malformed header: missing HTTP content-type"}
	for _, f := range fields {
		switch f.Name {
		case ":status":
			h.httpStatus = f.Value
		case "content-type":
			if isGRPC(f.Value) {
				h.grpc = true
			} else {
				h.contentType = fmt.Sprintf("transport: received unexpected content-type %q", f.Value)
			}
		case "grpc-encoding":
			h.encoding = f.Value
		case "grpc-status":
			code, err := strconv.ParseInt(f.Value, 10, 32)
			if err != nil {
				return h, status.Newf(codes.Unknown, "transport: malformed grpc-status: %v", err)
			}
			h.code = codes.Code(uint32(code))
		case "grpc-message":
			h.message = unescapeMessage(f.Value)
		default:
			h.binary(f)
		}
	}
	return h, nil
}

func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// binary takes a header that is in base 64, if f is one.
func (h *grpcHeaders) binary(f hpack.HeaderField) {
	if !strings.HasSuffix(f.Name, "-bin") {
		return
	}
	encoding := base64.RawStdEncoding
	if len(f.Value)%4 == 0 {
		encoding = base64.StdEncoding
	}
	value, err := encoding.DecodeString(f.Value)
	if err != nil {
		h.malformed = fmt.Sprintf("transport: malformed %s: %v", f.Name, err)
	} else if f.Name == "grpc-status-details-bin" {
		h.details = append(h.details, string(value))
	}
}

// status returns the status of trailers. Details that contradict its code make it another one.
func (h *grpcHeaders) status() *status.Status {
	plain := status.New(h.code, h.message)
	if len(h.details) != 1 {
		return plain
	}
	details := plain.Proto()
	if err := proto.Unmarshal([]byte(h.details[0]), details); err != nil {
		return plain
	}
	if details.GetCode() != int32(h.code) {
		return status.Newf(codes.Internal, "grpc-status-details-bin mismatch: grpc-status=%v, grpc-message=%q, grpc-status-details-bin=%+v",
			h.code, h.message, details)
	}
	return status.FromProto(details)
}

// unescapeMessage decodes the percent-encoding of grpc-message. What is not well formed stays as it is.
func unescapeMessage(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if s = after; len(s) >= 2 {
			if c, err := strconv.ParseUint(s[:2], 16, 8); err == nil {
				b.WriteByte(byte(c))
				s = s[2:]
				continue
			}
		}
		b.WriteByte('%')
	}
}

// codeOf returns the status of a call that ended with an error of HTTP/2.
func codeOf(code http2.ErrCode) codes.Code {
	switch code {
	case http2.ErrCodeRefusedStream:
		return codes.Unavailable
	case http2.ErrCodeCancel:
		return codes.Canceled
	case http2.ErrCodeFlowControl, http2.ErrCodeEnhanceYourCalm:
		return codes.ResourceExhausted
	case http2.ErrCodeInadequateSecurity:
		return codes.PermissionDenied
	}
	if code > http2.ErrCodeHTTP11Required {
		return codes.Unknown
	}
	return codes.Internal
}

// codeOfHTTP returns the status that an HTTP status stands for.
func codeOfHTTP(code int) codes.Code {
	switch code {
	case http.StatusBadRequest:
		return codes.Internal
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Unknown
}
