package docker

import (
	"fmt"
	"testing"
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
