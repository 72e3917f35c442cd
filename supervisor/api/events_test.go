package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

func event(container, reason string, at time.Time) core.Event {
	return core.Event{Time: at, Container: container, Reason: reason, Message: reason + " of " + container}
}

func TestEvents(t *testing.T) {
	a, j, _ := newAPI(readyContainer("web-1"))
	if got := get(t, a.ReadOnly(), "/v1/events").Body.String(); got != "[]\n" {
		t.Errorf("no events: %q", got)
	}
	j.Record(event("web-1", "Started", at(1)))
	j.Record(event("web-2", "Started", at(2)))
	j.Record(event("web-1", "Ready", at(3)))
	golden(t, "events.json", indented(t, get(t, a.ReadOnly(), "/v1/events").Body.Bytes()))
	for query, want := range map[string]int{
		"container=web-1": 2, "container=web-2": 1, "container=gone": 0,
		"since=2026-01-02T03:04:03Z": 1, "since=2026-01-02T04:04:03%2B01:00&container=web-1": 1,
		"since=1ns": 0, "since=1000000h": 3, "since=20000d": 3, "since=0d": 0,
		"n=2": 2, "n=0": 0, "n=9": 3, "container=web-1&n=1": 1,
	} {
		body := get(t, a.ReadOnly(), "/v1/events?"+query).Body.String()
		if got := strings.Count(body, `"reason"`); got != want {
			t.Errorf("%s: %d events, want %d: %s", query, got, want, body)
		}
	}
	for _, since := range []string{"x", "-5m", "12", "2026-01-02", "-1d", "d", "99999999d", "1.5d"} {
		if got := get(t, a.ReadOnly(), "/v1/events?since="+since).Code; got != http.StatusBadRequest {
			t.Errorf("since=%s: %d, want 400", since, got)
		}
	}
}

// What a container's probe says may move the cursor of a terminal, or turn a line around.
func TestAnswersAreEscaped(t *testing.T) {
	const said = "\u009b31m\u202egnp.exe\u2066\x7f"
	v := unreadyContainer("web-1")
	for i := range v.State.Health.Probes {
		v.State.Health.Probes[i].Last.Output = said
	}
	v.Container.Image, v.Spec.Name, v.Group = "web:"+said, said, said
	a, j, _ := newAPI(v)
	j.Record(core.Event{Time: at(1), Container: "web-1", Reason: "Unhealthy", Message: said})
	for path, shows := range map[string]bool{
		"/v1/events": true, "/v1/containers": true, "/v1/containers/web-1": true, "/v1/containers/web-1/explain": true, "/v1/overview": true,
		"/v1/containers/web-1/timeline": true, "/v1/services": false, "/v1/discovery/prometheus": false, "/v1/" + said: true,
	} {
		body := get(t, a.Control(), (&url.URL{Path: path}).String()).Body.String() // get looks for raw ones
		if got := strings.Contains(body, `\u009b31m\u202egnp.exe\u2066\u007f`); got != shows {
			t.Errorf("%s shows it: %t, want %t: %s", path, got, shows, body)
		}
	}
	if got := frame(&core.Event{Number: 7, Message: said}); !strings.Contains(got, `\u009b31m\u202egnp.exe\u2066\u007f`) {
		t.Errorf("the stream has %q", got)
	}
}

// What follows the newest events counts in any case.
func TestStreamOfTheNewestEvents(t *testing.T) {
	a, j, _ := newAPI(readyContainer("web-1"))
	for i := range 5 {
		j.Record(event("web-1", fmt.Sprint("Reason", i), at(i/2))) // two of a time
	}
	next := follow(t, serveTCP(t, a.ReadOnly())+"/v1/events?since=20000d&n=2")
	for i, want := range []string{"Reason3", "Reason4", "Reason5", "Reason6"} {
		if i == 2 {
			j.Record(event("web-1", "Reason5", at(1))) // somebody has set the clock back
			j.Record(event("web-1", "Reason6", at(6)))
		}
		if got := next(); !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, n := range []string{"-1", "x", "1.5"} {
		if got := get(t, a.ReadOnly(), "/v1/events?n="+n).Code; got != http.StatusBadRequest {
			t.Errorf("n=%s: %d", n, got)
		}
	}
}

// openStream asks for an event stream. The answer may be another one.
func openStream(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// follow opens an event stream and returns what reads its next line of data.
func follow(t *testing.T, url string) (next func() string) {
	t.Helper()
	answer := openStream(t, url)
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := theContract(t).validate("/components/schemas/Event", "application/json", []byte(data)); err != nil {
					t.Error(err)
				}
				return data
			}
		}
		return "end"
	}
}

func TestStream(t *testing.T) {
	a, j, _ := newAPI(readyContainer("web-1"))
	base := serveTCP(t, a.ReadOnly())
	j.Record(event("web-1", "Started", at(1)))

	live := follow(t, base+"/v1/events?container=web-1")
	kept := follow(t, base+"/v1/events?since="+url.QueryEscape(at(0).Format(time.RFC3339)))
	if got := kept(); !strings.Contains(got, "Started of web-1") {
		t.Errorf("kept: %s", got)
	}
	j.Record(event("web-2", "Ready", at(2)))
	j.Record(event("web-1", "Ready", at(3)))
	const want = `{"time":"2026-01-02T03:04:03Z","container":"web-1","reason":"Ready","message":"Ready of web-1"}`
	if got := live(); got != want {
		t.Errorf("live:\ngot  %s\nwant %s", got, want)
	}
	if got := kept(); !strings.Contains(got, "Ready of web-2") {
		t.Errorf("then: %s", got)
	}
}

func TestStreamHeartbeat(t *testing.T) {
	a, _, _ := newAPI()
	a.heartbeat = time.Millisecond
	base := serveTCP(t, a.ReadOnly())
	answer := openStream(t, base+"/v1/events")
	lines := bufio.NewScanner(answer.Body)
	for beats := 0; beats < 3 && lines.Scan(); {
		if lines.Text() == ":" {
			beats++
		}
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}

func FuzzParseSince(f *testing.F) {
	for _, s := range []string{"", "10m", "-1s", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00", "x", "9999999h"} {
		f.Add(s)
	}
	now := at(0)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseSince(s, now)
		if err != nil && !got.IsZero() {
			t.Errorf("%q: %v with an error", s, got)
		}
		if d, wrong := time.ParseDuration(s); wrong == nil && d >= 0 && (err != nil || got.After(now)) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	})
}
