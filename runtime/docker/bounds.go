package docker

import (
	"net/http"
	"strings"

	"healthd/runtime"
)

// Bounds of each part of an engine's answer. Labels, names, environments and the output of HEALTHCHECKs are in it, which
// containers and their owners choose. A list, or a stream of events, has no bound of its own: one part that is too large
// must not hide the others.
const (
	maxText    = 16 << 10          // of a string: the rest of a longer one is skipped
	maxTexts   = runtime.MaxLabels // of the strings of an object or a list: what comes after them is skipped
	maxMember  = 2 << 20           // of each member of the outermost object: what comes after that is skipped
	maxRefusal = 1 << 20           // of the text of a request that fails
)

// boundedTransport bounds what a client reads of an engine's answers. Outputs, which are no JSON, have bounds of
// their own, and so have the texts of refusals.
type boundedTransport struct{ http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, withCause(err)
	}
	switch {
	case forbids(resp) && r.Method != http.MethodHead:
		nameRequest(resp, r)
	case resp.StatusCode == http.StatusSwitchingProtocols, resp.StatusCode >= http.StatusBadRequest:
	case strings.HasSuffix(r.URL.Path, "/start"), strings.HasSuffix(r.URL.Path, "/logs"):
	default:
		resp.Body = newClipper(resp.Body)
	}
	return resp, nil
}
