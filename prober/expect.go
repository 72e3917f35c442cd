package prober

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxExpectBody bounds the body that Expect looks at, in bytes. Without Body and JSON, a probe
// reads MaxOutput bytes, as the kubelet does.
const maxExpectBody = 64 << 10

// Expect says which HTTP replies are a Success. All that is set must hold.
type Expect struct {
	// Status has the statuses that are a Success; empty: 200 to 399, as in the kubelet. A
	// redirect with a status that is listed is not followed.
	Status []StatusRange
	Body   string // must occur in the first 64 KiB of the body; empty: any body is right
	JSON   string // a test as ParseJSONTest has it of a body of at most 64 KiB; empty: none
	// WarningHeader is the name of a header that makes a warning of a Success, with its value as
	// the output, where it is not empty; empty: no header does.
	WarningHeader string
}

// StatusRange is the HTTP statuses from First to Last, both included.
type StatusRange struct{ First, Last int }

// String returns "200", or "200-299".
func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ParseStatusRange parses "200" or "200-299". Statuses are 100 to 599.
func ParseStatusRange(s string) (StatusRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	r := StatusRange{parseStatus(first), parseStatus(last)}
	if r.First == 0 || r.Last < r.First {
		return StatusRange{}, fmt.Errorf("%q is not a status or a range such as 200-299, of 100 to 599", s)
	}
	return r, nil
}

// parseStatus returns 0 for what is not a status.
func parseStatus(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 100 || n > 599 || len(s) != 3 {
		return 0
	}
	return n
}

// names says whether Status lists a status. A nil e lists none.
func (e *Expect) names(status int) bool {
	return e != nil && slices.ContainsFunc(e.Status, func(r StatusRange) bool { return r.First <= status && status <= r.Last })
}

// expectation is an Expect made ready. A nil one expects what the kubelet does.
type expectation struct {
	*Expect
	json *JSONTest // nil: none
}

// newExpectation returns an error if h expects what cannot be.
func newExpectation(h *HTTPGet) (*expectation, error) {
	e := h.Expect
	if e == nil {
		return nil, nil
	}
	x := &expectation{Expect: e}
	if x.readsBody() && h.method() == http.MethodHead {
		return nil, fmt.Errorf("the reply to %s has no body to expect something of", http.MethodHead)
	}
	if e.JSON == "" {
		return x, nil
	}
	test, err := ParseJSONTest(e.JSON)
	if err != nil {
		return nil, fmt.Errorf("cannot read the test of JSON: %w", err)
	}
	x.json = test
	return x, nil
}

func (x *expectation) readsBody() bool { return x != nil && (x.Body != "" || x.JSON != "") }

// needsHeader says whether the headers of the reply count.
func (x *expectation) needsHeader() bool { return x != nil && x.WarningHeader != "" }

// bodyLimit returns how many bytes of a body to read: with Body or JSON one more than count, so
// that a longer body shows.
func (x *expectation) bodyLimit() int64 {
	if x.readsBody() {
		return maxExpectBody + 1
	}
	return MaxOutput
}

// listsStatuses says that Expect says which statuses are right, and not the kubelet's rule.
func (x *expectation) listsStatuses() bool { return x != nil && len(x.Status) > 0 }

// wrongStatus returns why a status is a Failure, or empty.
func (x *expectation) wrongStatus(status int) string {
	right := status >= 200 && status < 400
	if x.listsStatuses() {
		right = x.names(status)
	}
	if right {
		return ""
	}
	if !x.listsStatuses() {
		return fmt.Sprintf("status %d, wanted 200-399", status)
	}
	ranges := make([]string, len(x.Status))
	for i, r := range x.Status {
		ranges[i] = r.String()
	}
	return fmt.Sprintf("status %d, wanted ", status) + strings.Join(ranges, ", ")
}

// wrongBody returns why a body is a Failure, or empty. Only what JSON asks for is told of it: the
// rest may hold secrets.
func (x *expectation) wrongBody(body []byte) string {
	if !x.readsBody() {
		return ""
	}
	cut := len(body) > maxExpectBody
	if cut {
		body = body[:maxExpectBody]
	}
	if x.Body != "" && !bytes.Contains(body, []byte(x.Body)) {
		return "the body does not have " + shortQuote(x.Body) + inFirst(cut)
	}
	if x.json == nil {
		return ""
	}
	if cut {
		return fmt.Sprintf("the body has more than %d bytes, too many for a test of JSON", maxExpectBody)
	}
	if why := x.json.Unmet(body); why != "" {
		return why
	}
	return ""
}

func inFirst(cut bool) string {
	if !cut {
		return ""
	}
	return fmt.Sprintf(" in its first %d bytes, and more was not read", maxExpectBody)
}
