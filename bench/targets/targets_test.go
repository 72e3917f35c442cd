package targets

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"healthd/bench/engine"
)

func TestLateness(t *testing.T) {
	const period = 10 * time.Second
	at := func(seconds ...float64) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, time.Unix(1000, 0).Add(time.Duration(s*float64(time.Second))))
		}
		return all
	}
	for name, tt := range map[string]struct {
		asked   []time.Time
		missed  int
		longest time.Duration
	}{
		"in time":             {at(0, 10, 20), 0, 0},
		"one is late":         {at(0, 10.5, 20), 0, 500 * time.Millisecond},
		"the first is late":   {at(0.25, 10, 20), 0, 250 * time.Millisecond},
		"one is missing":      {at(0, 20, 30), 1, 0},
		"two are missing":     {at(0, 10, 40), 2, 0},
		"it was asked once":   {at(7), 0, 0},
		"another phase comes": {at(0, 10, 24, 34), 0, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			late, missed := lateness(tt.asked, period)
			var longest time.Duration
			for _, d := range late {
				longest = max(longest, d)
			}
			if missed != tt.missed || longest != tt.longest {
				t.Errorf("%d are missing, the longest delay is %v; want %d, %v", missed, longest, tt.missed, tt.longest)
			}
		})
	}
}

func TestListens(t *testing.T) {
	for port, want := range map[int]bool{
		17999: false, 18000: true, 18049: true, 18050: false, 19000: true, 20000: true, 20002: true, 20003: false,
		27999: false, 28000: true, 28049: true, 28050: false, 29000: false, 30000: true, 30002: true, 30003: false,
	} {
		if got := Listens(port, 3); got != want {
			t.Errorf("port %d: %v, want %v", port, got, want)
		}
	}
}

func TestGaps(t *testing.T) {
	const period = 10 * time.Second
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	for name, tt := range map[string]struct {
		asked    []float64
		from, to float64
		missed   int
	}{
		"in time":                   {[]float64{3, 13, 23}, 0, 30, 0},
		"none is due yet":           {nil, 0, 9, 0},
		"none came":                 {nil, 0, 31, 2},
		"one is late":               {[]float64{3, 17.5, 23}, 0, 30, 0},
		"one is missing":            {[]float64{3, 23}, 0, 30, 1},
		"two are missing":           {[]float64{3, 33}, 0, 40, 2},
		"the first is missing":      {[]float64{16}, 0, 20, 1},
		"they end":                  {[]float64{3}, 0, 20, 1},
		"another phase comes later": {[]float64{3, 17}, 0, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []time.Time
			for _, s := range tt.asked {
				asked = append(asked, at(s))
			}
			if missed := gaps(asked, at(tt.from), at(tt.to), period); missed != tt.missed {
				t.Errorf("%d are missing, want %d", missed, tt.missed)
			}
		})
	}
}

// A probe that comes no more is missed, too: those of the past tell that there should be some.
func TestMissedProbesOfOneContainer(t *testing.T) {
	targets, began := New(2), time.Unix(1000, 0)
	targets.probes[stream{0, "/ready"}] = []time.Time{began, began.Add(time.Second), began.Add(2 * time.Second)}
	targets.probes[stream{0, "tcp"}] = []time.Time{began}
	targets.probes[stream{0, startup}] = []time.Time{began}
	targets.probes[stream{1, "/ready"}] = []time.Time{began}
	now := began.Add(2500 * time.Millisecond)
	if got := targets.missed(0, began.Add(time.Second), now, time.Second); got != 1 { // tcp: 1.5 periods without one
		t.Errorf("%d are missing, want 1", got)
	}
	if got := len(targets.probes[stream{0, "/ready"}]); got != 2 {
		t.Errorf("%d times are kept, want 2", got)
	}
	if got := targets.missed(0, now, now.Add(2*time.Second), time.Second); got != 2 {
		t.Errorf("later %d are missing, want 2", got)
	}
}

func TestOneProbeOfOneContainerFails(t *testing.T) {
	targets := New(2)
	control := targets.Handler()
	post := func(path string) {
		control.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil))
	}
	ask := func(number int, path string) int {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: engine.OwnPort + number}
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		targets.web(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
		return w.Code
	}
	post("/sick?number=1&probe=/live")
	if got := []int{ask(1, "/live"), ask(1, "/ready"), ask(0, "/live")}; !slices.Equal(got, []int{500, 200, 200}) {
		t.Errorf("sick: got %v", got)
	}
	post("/well?number=1&probe=/live")
	if got := ask(1, "/live"); got != 200 {
		t.Errorf("well: got %v", got)
	}
}
