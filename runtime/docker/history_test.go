package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

// engineWithHistory is an engine that started at the second 500, with events at the given
// seconds, whose clock is ahead of healthd's. It answers all else with the status other.
func engineWithHistory(t *testing.T, seconds []int64, ahead time.Duration, other int) *Engine {
	t.Helper()
	answers := map[string]string{
		"info":   `{"LiveRestoreEnabled":true}`,
		"bridge": fmt.Sprintf(`{"Name":"bridge","Created":%q}`, time.Unix(500, 0).Format(time.RFC3339Nano)),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", oldestAPI)
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		if body, ok := answers[path.Base(r.URL.Path)]; ok {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(other)
			fmt.Fprint(w, body)
		}
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return
		}
		bound := func(name string) float64 {
			f, err := strconv.ParseFloat(r.URL.Query().Get(name), 64)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return f
		}
		for _, s := range asDocker(seconds, bound("since"), bound("until")) {
			fmt.Fprintf(w, `{"Type":"image","Action":"pull","time":%d,"timeNano":%d}`+"\n", s, time.Unix(s, 0).UnixNano())
		}
		if until := time.Unix(int64(bound("until")), 0); until.After(time.Now().Add(ahead)) {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Until(until.Add(-ahead))):
			}
		}
	}))
	t.Cleanup(server.Close)
	e, err := New(Config{Endpoint: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// asDocker returns the events between two moments. Docker goes from the newest one back, and
// ends at the first that is too old.
func asDocker(seconds []int64, since, until float64) []int64 {
	var all []int64
	for _, s := range slices.Backward(seconds) {
		if float64(s) < since {
			break
		}
		if float64(s) <= until {
			all = append(all, s)
		}
	}
	slices.Reverse(all)
	return all
}

func TestEventHistory(t *testing.T) {
	from := func(first, n int64) (all []int64) {
		for i := range n {
			all = append(all, first+i)
		}
		return all
	}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	future := time.Now().Add(time.Hour).Unix()
	for _, tt := range []struct {
		name   string
		events []int64
		ahead  time.Duration
		at     int64
		want   runtime.EventHistory
	}{
		{"no events", nil, 0, 1000, runtime.EventHistory{}},
		{"the event", from(900, 256), 0, 1000, runtime.EventHistory{HasEvent: true}},
		{"newer ones", from(1001, 100), 0, 1000, runtime.EventHistory{Oldest: at(1001), LiveRestore: true}},
		{"full", from(1001, 256), 0, 1000, runtime.EventHistory{Oldest: at(1001), Full: true}},
		{"full, but some came during the request", from(1001, 220), 0, 1000, runtime.EventHistory{Oldest: at(1001), Full: true}},
		{"full, and it restarted", from(1001, 256), 0, 400, runtime.EventHistory{Oldest: at(1001), Full: true, Began: at(500), LiveRestore: true}},
		{"full, and it started in its future: its clock was set back", from(101, 256), -time.Since(at(360)), 100, runtime.EventHistory{Oldest: at(101), Full: true}},
		{"its clock is ahead", from(1001, 10), time.Hour, 1000, runtime.EventHistory{Oldest: at(1001), LiveRestore: true}},
		{"its clock is behind", from(1001, 10), -time.Hour, 1000, runtime.EventHistory{Oldest: at(1001), LiveRestore: true}},
		{"its clock was set back after the event", from(future, 1), 0, future, runtime.EventHistory{HasEvent: true}},
		{"its clock was set back after the event, and others came", []int64{900, 1000, 800, 810}, 0, 1000, runtime.EventHistory{HasEvent: true}},
		{"its clock was set back, and it restarted", from(900, 10), 0, 1000, runtime.EventHistory{Oldest: at(900), LiveRestore: true}},
		{"its clock was set far back, and it restarted", from(900, 10), 0, future, runtime.EventHistory{Oldest: at(900), LiveRestore: true}},
		{"an unlimited log", from(900, 5000), 0, 99000, runtime.EventHistory{Oldest: at(900), Full: true}},
		{"an unlimited log with the event", from(900, 5000), 0, 5000, runtime.EventHistory{HasEvent: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := engineWithHistory(t, tt.events, tt.ahead, http.StatusOK).EventHistory(t.Context(), at(tt.at))
			if m.Began.Equal(tt.want.Began) {
				m.Began = tt.want.Began // in whatever zone
			}
			if err != nil || m != tt.want {
				t.Errorf("got %+v, %v; want %+v", m, err, tt.want)
			}
		})
	}
}

// A proxy that forbids /info and /networks leaves the rest of the answer valid; an engine that
// fails to answer does not.
func TestEventHistoryAlone(t *testing.T) {
	full := make([]int64, 256)
	for i := range full {
		full[i] = 1001 + int64(i)
	}
	for status, ok := range map[int]bool{403: true, 404: true, 500: false} {
		for _, events := range [][]int64{{1001}, full} {
			m, err := engineWithHistory(t, events, 0, status).EventHistory(t.Context(), time.Unix(400, 0))
			if m.LiveRestore || !m.Began.IsZero() || (err == nil) != ok {
				t.Errorf("status %d, %d events: %+v, %v", status, len(events), m, err)
			}
		}
	}
}

func TestEventHistoryGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := engineWithHistory(t, nil, 0, http.StatusOK).EventHistory(ctx, time.Unix(1000, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A socket proxy that lets /_ping pass as Docker's own clients ask it: without a version.
func TestProxyThatAllowsLittle(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.47")
		switch {
		case r.URL.Path == "/_ping":
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.(http.Flusher).Flush()
			if !r.URL.Query().Has("until") {
				<-r.Context().Done()
			}
		default:
			http.Error(w, "forbidden", http.StatusForbidden)
		}
	}))
	defer srv.CloseClientConnections()
	e, err := New(Config{Endpoint: "tcp://" + srv.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	if _, err := e.Subscribe(ctx, time.Now()); err != nil {
		t.Errorf("Subscribe: %v", err)
	}
	if _, err := e.EventHistory(ctx, time.Now()); err != nil {
		t.Errorf("EventHistory: %v", err)
	}
}

// The engine's clock is ahead of healthd's: its history has a signal of just now.
func TestHistoryOfAnEngineAhead(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("API-Version", "1.47")
		w.Header().Set("Date", time.Now().Add(1500*time.Millisecond).UTC().Format(http.TimeFormat))
	}))
	defer srv.Close()
	e, err := New(Config{Endpoint: "tcp://" + srv.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	engineNow := time.Now().Add(1500 * time.Millisecond)
	end, _, err := e.historyEnd(t.Context())
	if err != nil || end.Before(engineNow) {
		t.Errorf("history is asked up to %v before the engine's now (%v)", engineNow.Sub(end), err)
	}
}

// Docker tells all that it has. Podman, which has more, must tell the event of the moment that is
// asked for, too: the Watcher waits for it.
func TestSubscribeSince(t *testing.T) {
	at := time.Unix(1000, 5)
	for libpod, want := range map[string]time.Time{"": historyBegin, "5.4.2": at.Add(-timeRounding)} {
		asked := make(chan string, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("API-Version", "1.47")
			if libpod != "" {
				w.Header().Set("Libpod-API-Version", libpod)
			}
			if strings.HasSuffix(r.URL.Path, "/containers/json") {
				_, _ = io.WriteString(w, "[]")
			}
			if strings.HasSuffix(r.URL.Path, "/events") {
				asked <- r.URL.Query().Get("since")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}))
		defer srv.CloseClientConnections()
		e, err := New(Config{Endpoint: "tcp://" + srv.Listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := e.Subscribe(ctx, at); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != formatTime(want) {
			t.Errorf("Podman %q: asked for events since %s, want %s", libpod, got, formatTime(want))
		}
	}
}
