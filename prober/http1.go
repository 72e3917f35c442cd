package prober

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// headBuffer is the longest status line or header line, in bytes. A longer header
	// that a probe does not need is skipped, any other is an error.
	headBuffer = 4 << 10
	// maxHead bounds all headers of a reply, interim replies included, in bytes.
	maxHead = 256 << 10
)

// reply is what a probe needs of an HTTP/1 response.
type reply struct {
	status     int    // 0: the headers did not arrive
	location   string // of a redirect that may be followed
	body       []byte // at most MaxOutput bytes
	truncated  bool   // the body goes on
	eof        bool   // the connection has been read to its end
	receivedAt time.Time
}

// malformed is the error of a peer that does not speak HTTP.
type malformed string

func (m malformed) Error() string { return "malformed HTTP response: " + string(m) }

// readReply reads a response to a GET request, and appends its body to the empty
// body. With an error the reply has as much as arrived.
func readReply(br *bufio.Reader, body []byte) (reply, error) {
	rep := reply{body: body}
	h, err := readHeads(br)
	if err != nil {
		return rep, err
	}
	rep.status = h.status
	rep.location = h.location
	if h.status == 101 || h.status == 204 || h.status == 304 {
		return rep, nil
	}
	switch {
	case h.chunked:
		rep.body, _, err = appendBody(body, httputil.NewChunkedReader(br), MaxOutput)
		rep.truncated = len(rep.body) == MaxOutput
	case h.length >= 0:
		want := min(h.length, MaxOutput)
		var ended bool
		rep.body, ended, err = appendBody(body, br, int(want))
		if ended {
			err = io.ErrUnexpectedEOF
		}
		rep.truncated = h.length > want
	default:
		rep.body, rep.eof, err = appendBody(body, br, MaxOutput)
		rep.truncated = !rep.eof
	}
	return rep, err
}

// appendBody appends limit bytes of r to body, less if r ends before.
func appendBody(body []byte, r io.Reader, limit int) (_ []byte, ended bool, err error) {
	for len(body) < limit {
		if len(body) == cap(body) {
			body = slices.Grow(body, 512)
		}
		n, err := r.Read(body[len(body):min(cap(body), limit)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, len(body) < limit, nil
		}
		if err != nil {
			return body, false, err
		}
	}
	return body, false, nil
}

// head is a status line and those headers that a probe needs.
type head struct {
	status      int
	http10      bool // HTTP/1.0, which knows no chunks
	chunked     bool
	length      int64 // -1: not said
	location    string
	hasLocation bool
}

// readHeads reads the first head that is not an interim one.
func readHeads(br *bufio.Reader) (head, error) {
	budget := maxHead
	for {
		h, err := readHead(br, &budget)
		if err != nil || h.status >= 200 || h.status == 101 {
			return h, err
		}
	}
}

func readHead(br *bufio.Reader, budget *int) (head, error) {
	line, whole, err := readLine(br, budget)
	if err != nil {
		return head{}, err
	}
	h, err := parseStatusLine(line)
	if err != nil {
		return head{}, err
	}
	if !whole {
		return head{}, malformed("status line is too long")
	}
	var folding, matters bool
	for {
		line, whole, err := readLine(br, budget)
		if err != nil {
			return head{}, err
		}
		if len(line) == 0 {
			h.applyRules()
			return h, nil
		}
		if line[0] == ' ' || line[0] == '\t' {
			if !folding || matters {
				return head{}, malformed("unexpected continuation of a header")
			}
			continue
		}
		if matters, err = h.add(line, whole); err != nil {
			return head{}, err
		}
		folding = true
	}
}

// readLine returns the next line without its end. Of a line longer than
// headBuffer it returns the beginning and false. The line is valid until the
// next read.
func readLine(br *bufio.Reader, budget *int) (line []byte, whole bool, err error) {
	line, err = br.ReadSlice('\n')
	if *budget -= len(line); *budget < 0 {
		return nil, false, malformed("headers are too long")
	}
	if err == nil {
		line = line[:len(line)-1]
		return bytes.TrimSuffix(line, []byte{'\r'}), true, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, false, err
	}
	const beginning = 64 // a name, to say which line it was
	line = bytes.Clone(line[:beginning])
	for errors.Is(err, bufio.ErrBufferFull) {
		var rest []byte
		rest, err = br.ReadSlice('\n')
		if *budget -= len(rest); *budget < 0 {
			return nil, false, malformed("headers are too long")
		}
	}
	return line, false, err
}

// parseStatusLine parses "HTTP/1.1 200 OK".
func parseStatusLine(line []byte) (head, error) {
	proto, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(proto) != len("HTTP/1.1") || string(proto[:7]) != "HTTP/1." || !isDigit(proto[7]) {
		return head{}, malformed(fmt.Sprintf("status line is %.40q", line))
	}
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte{' '})
	if len(code) != 3 || code[0] < '1' || !isDigit(code[0]) || !isDigit(code[1]) || !isDigit(code[2]) {
		return head{}, malformed(fmt.Sprintf("status code is %.40q", code))
	}
	status := int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	return head{status: status, http10: proto[7] == '0', length: -1}, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// add parses a header line, and says whether a probe needs that header.
func (h *head) add(line []byte, whole bool) (matters bool, err error) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !validName(name) {
		return false, malformed(fmt.Sprintf("header line is %.40q", line))
	}
	value = textproto.TrimBytes(value)
	switch {
	case equalFoldASCII(name, "Content-Length"):
		err = h.setLength(value)
	case equalFoldASCII(name, "Transfer-Encoding"):
		err = h.setEncoding(value)
	case equalFoldASCII(name, "Location") && isRedirect(h.status):
		// The first one counts, as in net/http.
		if !h.hasLocation {
			h.location, h.hasLocation = string(value), true
		}
	default:
		return false, nil
	}
	if err == nil && !whole {
		err = malformed(fmt.Sprintf("header %s is too long", name))
	}
	return true, err
}

func (h *head) setLength(value []byte) error {
	n, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil || !isDigit(value[0]) {
		return malformed(fmt.Sprintf("Content-Length is %.40q", value))
	}
	if h.length >= 0 && h.length != int64(n) {
		return malformed("Content-Length is given twice")
	}
	h.length = int64(n)
	return nil
}

func (h *head) setEncoding(value []byte) error {
	if h.http10 {
		return nil
	}
	if h.chunked || !equalFoldASCII(value, "chunked") {
		return malformed(fmt.Sprintf("Transfer-Encoding is %.40q", value))
	}
	h.chunked = true
	return nil
}

// applyRules applies the rules between headers.
func (h *head) applyRules() {
	if h.chunked {
		h.length = -1
	}
}

// isRedirect says whether a Location is followed with that status.
func isRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// equalFoldASCII ignores the case of ASCII letters. bytes.EqualFold also equates some
// letters outside ASCII with ASCII ones.
func equalFoldASCII(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if lower(c) != lower(want[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func validName(name []byte) bool {
	for _, c := range name {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(name) > 0
}
