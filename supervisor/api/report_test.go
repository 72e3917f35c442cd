package api

import (
	"testing"
	"testing/synctest"
	"time"
)

// A report begins a week ago unless the query says another time.
func TestReportBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for query, want := range map[string]time.Duration{
			"": 7 * 24 * time.Hour, "?since=1h": time.Hour, "?since=30d": 30 * 24 * time.Hour, "?since=1999-12-31T22:00:00Z": 2 * time.Hour,
		} {
			var got time.Duration
			a, _, _ := newAPI()
			a.report = func(_ string, since time.Time) (Report, error) {
				got = time.Since(since)
				return Report{Services: []ServiceReport{}}, nil
			}
			if w := get(t, a.ReadOnly(), "/v1/report"+query); w.Code != 200 || got != want {
				t.Errorf("%s: %d, %v ago, want %v", query, w.Code, got, want)
			}
		}
	})
}
