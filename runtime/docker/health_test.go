package docker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Docker calls each container unhealthy whose checks it ends, as it does for a pause.
func TestHealthSinceAPause(t *testing.T) {
	for _, tt := range []struct {
		healthcheck, status string
		streak              int
		want                string
	}{
		{"", "unhealthy", 0, "starting"},
		{"", "unhealthy", 2, "starting"},
		{"", "unhealthy", 3, "unhealthy"},
		{`"Healthcheck":{"Retries":1}`, "unhealthy", 0, "starting"},
		{`"Healthcheck":{"Retries":1}`, "unhealthy", 1, "unhealthy"},
		{`"Healthcheck":{"Retries":5}`, "unhealthy", 4, "starting"},
		{"", "healthy", 0, "healthy"},
		{"", "healthy", 2, "healthy"},
		{"", "starting", 0, "starting"},
	} {
		e := engineThatAnswers(t, &fakeAnswers{[]string{fmt.Sprintf(
			`{"Id":%q,"State":{"Status":"running","Health":{"Status":%q,"FailingStreak":%d,"Log":[{"Output":"old"}]}},"Config":{%s}}`,
			fuzzedID, tt.status, tt.streak, tt.healthcheck)}})
		if status, output, err := e.Health(t.Context(), fuzzedID); status != tt.want || err != nil || (output == "old") != (tt.status == tt.want) {
			t.Errorf("%+v: got %s, %q, %v", tt, status, output, err)
		}
	}
}

// What the engine found counts until it has left out a check: it may have ceased to check, and then says the same for
// ever.
func TestHealthOfLongAgo(t *testing.T) {
	const hourly = `"Healthcheck":{"Interval":3600000000000,"Timeout":600000000000}`
	for _, tt := range []struct {
		healthcheck, status string
		age                 time.Duration
		want                string
	}{
		{"", "healthy", 0, "healthy"},
		{"", "healthy", 90 * time.Second, "healthy"},
		{"", "healthy", 2 * time.Minute, "starting"},
		{"", "unhealthy", 90 * time.Second, "unhealthy"},
		{"", "unhealthy", 2 * time.Minute, "starting"},
		{"", "healthy", -time.Hour, "healthy"}, // the clock was set back
		{hourly, "healthy", 2 * time.Hour, "healthy"},
		{hourly, "healthy", 3 * time.Hour, "starting"},
		{`"Healthcheck":{"Interval":9223372036854775807,"Timeout":9223372036854775807}`, "healthy", 9000 * time.Hour, "healthy"},
	} {
		ended := time.Now().Add(-tt.age).Format(time.RFC3339Nano)
		e := engineThatAnswers(t, &fakeAnswers{[]string{fmt.Sprintf(
			`{"Id":%q,"State":{"Status":"running","Health":{"Status":%q,"FailingStreak":9,"Log":[{"Output":"first"},{"End":%q,"Output":"newest"}]}},"Config":{%s}}`,
			fuzzedID, tt.status, ended, tt.healthcheck)}})
		status, output, err := e.Health(t.Context(), fuzzedID)
		said := output == "newest"
		if status != tt.status {
			said = strings.HasPrefix(output, "the engine calls it "+tt.status+", but has not checked it since 20")
		}
		if status != tt.want || err != nil || !said {
			t.Errorf("%+v: got %s, %q, %v", tt, status, output, err)
		}
	}
}
