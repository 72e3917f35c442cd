package targets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Report is what the targets have seen of the probes in a window.
type Report struct {
	Probes int // of containers that have ports of their own
	Asked  int // times, by all probes
	Opened int // connections, by all probes
	Missed int // times that such a probe should have come in the window and did not
	// P50, P99 and Max are how much later than in their regular phase probes came.
	P50, P99, Max time.Duration
}

// Handler answers what the measurement asks of the targets:
//
//	POST /fail?from=N&to=M           these containers fail from now on, and no others; those with shared ports count as one above all
//	POST /sick?number=N&probe=PATH   this probe of container N fails from now on, too
//	POST /well?number=N&probe=PATH   ends that
//	POST /forget                     begins a new window
//	GET  /report?period=D&to=M       a Report, of the containers below M
//	GET  /asked?number=N&since=NANOS the times, in nanoseconds, at which container N was asked, as a JSON array; with
//	                                 &probe=/PATH by that one of its probes
//	GET  /begun?to=M                 how many containers below M were asked at all
//	GET  /missed?number=N&since=NANOS&period=D
//	                                 how many probes of container N, but for startup, should have come since then and did not.
//	                                 Only probes that came before count. Forgets times before since
func (t *Targets) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fail", func(_ http.ResponseWriter, r *http.Request) {
		t.failing.Store(&interval{from: number(r, "from"), to: number(r, "to")})
	})
	for path, sick := range map[string]bool{"/sick": true, "/well": false} {
		mux.HandleFunc("POST "+path, func(_ http.ResponseWriter, r *http.Request) {
			t.setSick(stream{number(r, "number"), r.URL.Query().Get("probe")}, sick)
		})
	}
	mux.HandleFunc("POST /forget", func(http.ResponseWriter, *http.Request) {
		t.mu.Lock()
		defer t.mu.Unlock()
		clear(t.probes)
		t.shared = 0
		t.opened.Store(0)
	})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		if p := period(w, r); p > 0 {
			_ = json.NewEncoder(w).Encode(t.report(p, number(r, "to")))
		}
	})
	mux.HandleFunc("GET /missed", func(w http.ResponseWriter, r *http.Request) {
		if p := period(w, r); p > 0 {
			_ = json.NewEncoder(w).Encode(t.missed(number(r, "number"), time.Unix(0, int64(number(r, "since"))), time.Now(), p))
		}
	})
	mux.HandleFunc("GET /asked", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(t.asked(number(r, "number"), r.URL.Query().Get("probe"), int64(number(r, "since"))))
	})
	mux.HandleFunc("GET /begun", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(t.begun(number(r, "to")))
	})
	return mux
}

func number(r *http.Request, key string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(key))
	return n
}

// period returns the period that is asked for, or answers that it is wrong and returns 0.
func period(w http.ResponseWriter, r *http.Request) time.Duration {
	p, err := time.ParseDuration(r.URL.Query().Get("period"))
	if err != nil || p <= 0 {
		http.Error(w, fmt.Sprintf("period: %v", err), http.StatusBadRequest)
		return 0
	}
	return p
}

func (t *Targets) asked(number int, probe string, since int64) []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := []int64{}
	for s, asked := range t.probes {
		if s.number != number || probe != "" && s.probe != probe {
			continue
		}
		for _, at := range asked {
			if at.UnixNano() >= since {
				times = append(times, at.UnixNano())
			}
		}
	}
	slices.Sort(times)
	return times
}

func (t *Targets) begun(to int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := map[int]bool{}
	for s := range t.probes {
		if s.number < to {
			begun[s.number] = true
		}
	}
	return len(begun)
}

func (t *Targets) report(period time.Duration, to int) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{Asked: t.shared, Opened: int(t.opened.Load())}
	var late []time.Duration
	for s, asked := range t.probes {
		if r.Asked += len(asked); s.number >= to {
			continue
		}
		r.Probes++
		offsets, missed := lateness(asked, period)
		r.Missed += missed
		late = append(late, offsets...)
	}
	if len(late) == 0 {
		return r
	}
	slices.Sort(late)
	r.P50, r.P99, r.Max = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	return r
}

// lateness returns how much later than the earliest of them, in the phase of the period, the others came, and how
// many are missing between the first and the last. An earliest one that was late itself hides as much: with
// as many probes as a window has, that is little.
func lateness(asked []time.Time, period time.Duration) (late []time.Duration, missed int) {
	first := asked[0]
	var turns int
	for i, at := range asked {
		turn := int((at.Sub(first) + period/2) / period)
		if i > 0 && turn > turns+1 {
			missed += turn - turns - 1
		}
		turns = turn
		late = append(late, at.Sub(first)-time.Duration(turn)*period)
	}
	earliest := slices.MinFunc(late, cmp.Compare[time.Duration])
	for i := range late {
		late[i] -= earliest
	}
	return late, missed
}

// startup is the path of the probes that end with the start of a container.
const startup = "/startup"

func (t *Targets) missed(number int, since, now time.Time, period time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	missed := 0
	for s, asked := range t.probes {
		if s.number != number || s.probe == startup {
			continue
		}
		after := slices.IndexFunc(asked, func(at time.Time) bool { return !at.Before(since) })
		if after < 0 {
			after = len(asked)
		}
		missed += gaps(asked[after:], since, now, period)
		t.probes[s] = slices.Delete(asked, 0, after)
	}
	return missed
}

// gaps returns how many probes are missing between from and to. The phase of the period does not matter: a change of it
// makes a gap of less than two periods, and one of more than one and a half counts.
func gaps(asked []time.Time, from, to time.Time, period time.Duration) (missed int) {
	last := from
	for _, at := range append(slices.Clone(asked), to) {
		if turns := int((at.Sub(last) + period/2) / period); turns > 1 {
			missed += turns - 1
		}
		last = at
	}
	return missed
}
