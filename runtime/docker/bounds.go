package docker

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Bounds of an engine's answers. Labels, names and the output of HEALTHCHECKs, which containers and
// their owners choose, are in them.
const (
	maxListAnswer  = 256 << 20
	maxOtherAnswer = 16 << 20
	maxEvent       = 1 << 20
)

// boundedTransport bounds what a client reads. The output of a command has a bound of its own.
type boundedTransport struct{ http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	b := &boundedBody{ReadCloser: resp.Body, most: maxOtherAnswer}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/containers/json"):
		b.most = maxListAnswer
	case strings.HasSuffix(path, "/events"):
		b.most, b.lines = maxEvent, true
	case strings.Contains(path, "/exec/") && strings.HasSuffix(path, "/start"):
		return resp, nil
	}
	resp.Body = b
	return resp, nil
}

// boundedBody is a body of at most so many bytes, or of lines of so many.
type boundedBody struct {
	io.ReadCloser
	most, read int
	lines      bool
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if end := bytes.LastIndexByte(p[:n], '\n'); b.lines && end >= 0 {
		b.read = n - end - 1
	}
	if b.read > b.most {
		return 0, fmt.Errorf("the engine's answer is longer than %d bytes", b.most)
	}
	return n, err
}
