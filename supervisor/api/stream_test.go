package api

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/journal"
)

// frames opens an event stream as a browser does and returns what reads the next frame that is no comment, as "TYPE
// id: data". last is the ID of the last event that the browser has; empty: none.
func frames(t *testing.T, url, last string) func() string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		kind, id := "message", ""
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				kind = value
			case "id":
				id = value
			case "data":
				return kind + " " + id + ": " + value
			}
		}
		return "end"
	}
}

// A browser that has lost the stream gets the events since then, each once.
func TestStreamResumes(t *testing.T) {
	a, j, _ := newAPI(readyContainer("web-1"))
	url := serveTCP(t, a.ReadOnly()) + "/v1/events"
	for i := range 4 {
		j.Record(event("web-1", "Ready", at(i)))
	}
	for name, next := range map[string]func() string{
		"by its header": frames(t, url+"?n=0", "2"), "by its URL": frames(t, url+"?after=2", ""), "the header counts more": frames(t, url+"?after=0", "2"),
	} {
		for _, want := range []string{"message 3: ", "message 4: "} {
			if got := next(); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	lost := frames(t, url, "77") // healthd's journal was lost: all it has is new
	if got := lost(); !strings.HasPrefix(got, "message 1: ") {
		t.Errorf("of another journal: %s", got)
	}
	of := frames(t, url+"?container=web-2", "2")
	j.Record(event("web-1", "Ready", at(5)))
	j.Record(event("web-2", "Ready", at(6)))
	if got := of(); !strings.HasPrefix(got, "message 6: ") {
		t.Errorf("of one container: %s", got)
	}
}

// Who asks for it hears of containers that come and go.
func TestStreamTellsOfMembers(t *testing.T) {
	j := journal.New()
	board := supervisor.NewBoard(nil, readyContainer("web-1"))
	a := New(Config{Board: board, History: j, Controller: &controller{}})
	url := serveTCP(t, a.ReadOnly()) + "/v1/events"
	told, plain := frames(t, url+"?members", ""), frames(t, url, "")
	board.Show(readyContainer("web-2"))
	if got, want := told(), "members : {}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	board.Show(unreadyContainer("web-2")) // it is there already
	board.Remove(readyContainer("web-2").Container.ID)
	if got, want := told(), "members : {}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j.Record(event("web-1", "Ready", at(1)))
	for _, next := range []func() string{told, plain} {
		if got := next(); !strings.HasPrefix(got, "message 1: ") {
			t.Errorf("got %s", got)
		}
	}
}
