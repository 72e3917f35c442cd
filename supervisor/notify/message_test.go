package notify

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The text of a message, of each kind.
func TestText(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 4, 15, 0, time.UTC)
	web := subject{Reason: CrashLoop, Runtime: "docker", Container: "shop-web-1", Service: "shop/web", Project: "shop"}
	loop := newEntry(begun, incident{web, now.Add(-10 * time.Second), "it ended with exit code 1 (Error)", "healthd starts it again after a back-off of 40s"})
	over := newEntry(resolved, incident{subject: subject{Reason: RuntimeLost, Runtime: "docker"}, Since: now.Add(-26 * time.Hour)})
	over.Resolved = now
	old := newEntry(lasts, incident{subject{Reason: JournalFailed}, now.Add(-4 * time.Hour), "no space left on device", "healthd goes on in memory, and tries again"})
	for _, tt := range []struct {
		name        string
		entries     []Entry
		held        int
		title, text string
	}{
		{"one", []Entry{loop}, 0, "[host1] CrashLoop: shop-web-1", `  of:    service shop/web, project shop, runtime docker
  since: 2026-01-31T03:04:05Z
  cause: it ended with exit code 1 (Error)
  next:  healthd starts it again after a back-off of 40s
  more:  healthd explain shop-web-1
`},
		{"resolved", []Entry{over}, 0, "[host1] Resolved: RuntimeLost: runtime docker, after 1d2h", `  of:    runtime docker
  since: 2026-01-30T01:04:15Z
  more:  healthd status
`},
		{"several", []Entry{loop, old, over}, 2, "[host1] 1 new problem (CrashLoop 1), 1 lasting problem (JournalFailed 1), 1 resolved (RuntimeLost 1)", `CrashLoop: shop-web-1
  of:    service shop/web, project shop, runtime docker
  since: 2026-01-31T03:04:05Z
  cause: it ended with exit code 1 (Error)
  next:  healthd starts it again after a back-off of 40s
  more:  healthd explain shop-web-1

Still JournalFailed: healthd
  since: 2026-01-30T23:04:15Z (4h0m)
  cause: no space left on device
  next:  healthd goes on in memory, and tries again
  more:  healthd status

Resolved: RuntimeLost: runtime docker, after 1d2h
  of:    runtime docker
  since: 2026-01-30T01:04:15Z
  more:  healthd status

2 more came and went while max_per_hour held messages back: healthd events
`},
	} {
		m := newMessage("oncall", "host1", tt.entries, tt.held, now)
		if m.Title != tt.title || m.Text != tt.text {
			t.Errorf("%s: got %s\n%s, want %s\n%s", tt.name, m.Title, m.Text, tt.title, tt.text)
		}
	}
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	m := newMessage("oncall", "host1", []Entry{loop}, 0, now)
	if !strings.Contains(string(page), m.Title+"\n\n"+m.Text) {
		t.Errorf("docs/notifications.md does not show\n%s\n\n%s", m.Title, m.Text)
	}
}

// The example of a webhook in the documentation is as the schema says.
func TestDocumentedMessage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	if !found {
		t.Fatal("there is no example")
	}
	checkSchema(t, []byte(example))
}

// Nothing of a secret URL is in what is shown, be it escaped or not.
func TestRedact(t *testing.T) {
	const secret = "smtp://user%40x:p%2Fssw0rd@mail.example:587/?from=a@b.example&to=oncall@c.example"
	for text, want := range map[string]string{
		`Post "https://hooks.example/T000/B000?x=y": EOF`: `Post "https://[hidden]": EOF`,
		"535 user@x may not use p/ssw0rd":                 "535 [hidden] may not use [hidden]",
		"535 user%40x may not use p%2Fssw0rd":             "535 [hidden] may not use [hidden]",
		"dial tcp: lookup mail.example: no such host":     "dial tcp: lookup [hidden]: no such host",
		"it answers 500":  "it answers 500",
		"smtp: " + secret: "smtp: smtp://[hidden]",
		"telegram://1234:ABC@telegram gave 401 and smtp, too": "telegram://[hidden] gave 401 and smtp, too",
	} {
		if got := redact(text, secret); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
