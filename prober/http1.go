package prober

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"os"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

const (
	// readBuffer is as large as that of http.Transport, in bytes: net/http refuses a line
	// of a chunked body, or a trailer, that does not fit.
	readBuffer = 4 << 10
	// maxHead bounds status lines and headers, with those of interim replies, in bytes.
	// The kubelet takes 10 MiB, for which net/http allocates up to 220 MiB. Like
	// http.Transport, exchange counts what comes from the connection until the head ends.
	maxHead = 256 << 10
)

// noStatus is the status of a reply whose head did not arrive. Status 0 can arrive.
const noStatus = -1

var (
	errLongHead = fmt.Errorf("status line and headers exceed %d bytes", maxHead)
	crlf        = []byte("\r\n")
	colon       = []byte(":")
)

// reply is what a probe needs of a response.
type reply struct {
	status int
	body   []byte // at most exchange.limit bytes
	length int64  // of the body as the head tells it; -1: it does not
	// encoding is the body's Content-Encoding, where it has one.
	encoding string
	last     bool // the server closes the connection after it
	// unusual is a response that net/http read. Its body is not read yet, and the other
	// fields mean nothing.
	unusual *http.Response
}

// missed says that rep, which came with err, answers no request: the server had closed the connection
// before, or closes it because it saw no request for long.
func (rep reply) missed(err error) bool {
	switch {
	case rep.unusual != nil:
		return rep.unusual.StatusCode == http.StatusRequestTimeout
	case rep.status == noStatus:
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	return rep.status == http.StatusRequestTimeout
}

// readReply reads the response to a request that is not HEAD. With an error the reply has as much as
// arrived. It parses the usual head itself, which costs no allocation. net/http reads all
// other replies, so that it alone judges what is well formed, with TLS and without.
func (x *exchange) readReply(conn io.Reader) (reply, error) {
	x.head = io.LimitedReader{R: conn, N: maxHead}
	x.br.Reset(&x.head)
	x.ended = false
	if _, err := x.br.Peek(1); err != nil {
		return reply{status: noStatus}, err
	}
	// Only what is here already is looked at: a reply may be malformed long before its
	// head ends.
	buffered, _ := x.br.Peek(x.br.Buffered())
	if isTLSRecord(buffered) {
		return reply{status: noStatus}, errSpeaksTLS
	}
	if h, ok := parseUsualHead(buffered); ok {
		_, _ = x.br.Discard(h.size)
		return x.readBody(h)
	}
	resp, err := x.readResponse()
	if err != nil {
		return reply{status: noStatus}, err
	}
	return reply{unusual: resp, last: resp.Close}, nil
}

// readResponse returns the first response that is not an interim one, as http.Transport
// does.
func (x *exchange) readResponse() (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(x.br, nil)
		if err != nil && x.head.N <= 0 {
			return nil, errLongHead
		}
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			x.head.N = math.MaxInt64
			// In memory, headers take up to 16 times what they took on the wire, and
			// the body may take long to come.
			resp.Header = http.Header{"Location": resp.Header["Location"], "Content-Encoding": resp.Header["Content-Encoding"]}
			// Close would read the body to its end, which may never come.
			resp.Body = io.NopCloser(&bodyReader{resp.Body, &x.ended})
			return resp, nil
		}
	}
}

// bodyReader notes the end of a body.
type bodyReader struct {
	io.Reader
	ended *bool
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	*b.ended = *b.ended || err == io.EOF
	return n, err
}

// readBody reads the body that follows h.
func (x *exchange) readBody(h usualHead) (reply, error) {
	want := x.limit
	if h.length >= 0 {
		want = min(h.length, want)
	}
	x.body.Reset()
	x.rest = io.LimitedReader{R: x.br, N: want}
	_, err := x.body.ReadFrom(&x.rest)
	if err == nil && x.rest.N > 0 && h.length >= 0 {
		err = io.ErrUnexpectedEOF
	}
	x.ended = err == nil && h.length == want
	return reply{status: h.status, body: x.body.Bytes(), length: h.length, encoding: h.encoding, last: h.last()}, err
}

// usualHead is what a probe needs of a usual head.
type usualHead struct {
	size   int // in bytes
	status int
	length int64 // of the body; -1: the body ends with the connection
	old    bool  // HTTP/1.0
	close  bool  // Connection: close
	keep   bool  // Connection: keep-alive
	// encoding is the Content-Encoding.
	encoding string
}

// last says that the server closes the connection after the reply.
func (h usualHead) last() bool { return h.length < 0 || h.close || h.old && !h.keep }

// parseUsualHead parses the head that b begins with, if it is complete and of the form
// that most servers send. It accepts less than net/http does, and never more.
func parseUsualHead(b []byte) (usualHead, bool) {
	line, rest, ok := bytes.Cut(b, crlf)
	h := usualHead{length: -1}
	if !ok || !h.parseStatus(line) {
		return usualHead{}, false
	}
	for {
		line, rest, ok = bytes.Cut(rest, crlf)
		switch {
		case !ok:
			return usualHead{}, false
		case len(line) > 0 && !h.parseHeader(line):
			return usualHead{}, false
		case len(line) > 0:
			continue
		}
		h.size = len(b) - len(rest)
		if h.status == http.StatusNoContent {
			h.length = 0
		}
		return h, true
	}
}

// parseStatus parses "HTTP/1.1 200 OK". Statuses of interim replies and redirects are left
// to net/http: more rules apply to them.
func (h *usualHead) parseStatus(line []byte) bool {
	line, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok {
		line, ok = bytes.CutPrefix(line, []byte("HTTP/1.0 "))
		h.old = true
	}
	if !ok || len(line) < 3 || !isText(line) || len(line) > 3 && line[3] != ' ' {
		return false
	}
	var err error
	h.status, err = strconv.Atoi(string(line[:3]))
	return err == nil && (200 <= h.status && h.status < 300 || 400 <= h.status)
}

func (h *usualHead) parseHeader(line []byte) bool {
	name, value, ok := bytes.Cut(line, colon)
	if !ok || !isToken(name) || !isText(value) {
		return false
	}
	switch {
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		return false
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseUint(string(textproto.TrimBytes(value)), 10, 63)
		if err != nil || h.length >= 0 {
			return false
		}
		h.length = int64(n)
	case bytes.EqualFold(name, []byte("Content-Encoding")):
		h.encoding = string(textproto.TrimBytes(value))
	case bytes.EqualFold(name, []byte("Connection")):
		for option := range bytes.SplitSeq(value, []byte(",")) {
			option = textproto.TrimBytes(option)
			h.close = h.close || bytes.EqualFold(option, []byte("close"))
			h.keep = h.keep || bytes.EqualFold(option, []byte("keep-alive"))
		}
	}
	return true
}

func isToken(name []byte) bool {
	for _, c := range name {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(name) > 0
}

// isText says that b has no control characters, line ends among them, but tabs.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
