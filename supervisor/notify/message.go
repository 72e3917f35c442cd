package notify

import (
	_ "embed"
	"time"
)

// Schema is the JSON schema of what webhooks and commands get.
//
//go:embed schema.json
var Schema []byte

// schemaVersion changes when a reader of the old form would misread the new one.
const schemaVersion = 1

// Bounds of one message.
const (
	maxListed = 50 // incidents and events in JSON
	maxShown  = 10 // in the text
)

// What a message says of an incident or an event.
const (
	begun    = "begun"    // it is new
	lasts    = "lasts"    // it was told before, and is not over
	resolved = "resolved" // it is over
	happened = "happened" // an event, which has no end
	test     = "test"     // of a message that somebody asked for
)

// Message is what a receiver gets. Webhooks and commands get it as JSON, by Schema.
type Message struct {
	Version  int       `json:"version"`
	ID       string    `json:"id"`       // the same in each attempt
	Time     time.Time `json:"time"`     // when it was made
	Host     string    `json:"host"`     // where healthd runs
	Receiver string    `json:"receiver"` // the name of the [[notify]]
	Status   string    `json:"status"`   // begun, lasts, resolved, happened or test: the first of these that an entry has
	Title    string    `json:"title"`    // one line
	Text     string    `json:"text"`     // for people
	Entries  []Entry   `json:"entries"`  // at most 50
	Count    int       `json:"count"`    // of all entries, also those left out
	Held     int       `json:"held"`     // incidents that began and ended while the limit held messages back, and events that were too many
}

// Entry is one incident or event of a Message.
type Entry struct {
	Status string `json:"status"`
	subject
	Since    time.Time `json:"since"` // its beginning; of an event, when it happened
	Resolved time.Time `json:"resolved,omitzero"`
	Cause    string    `json:"cause"`             // at most 300 bytes
	Next     string    `json:"next"`              // what healthd does, and what somebody can do
	Explain  string    `json:"explain,omitempty"` // the command that tells more
}

// newEntry returns what a message says of an incident.
func newEntry(status string, i incident) Entry {
	e := Entry{Status: status, subject: i.subject, Since: i.Since.UTC().Round(0), Cause: i.Cause, Next: i.Next}
	switch {
	case i.Container != "":
		e.Explain = "healthd explain " + i.Container
	case i.Service != "":
		e.Explain = "healthd status " + i.Service
	case i.Reason == RuntimeLost, i.Reason == JournalFailed:
		e.Explain = "healthd status"
	}
	return e
}

// newMessage returns a message of these entries without an ID.
func newMessage(receiver, host string, entries []Entry, held int, now time.Time) *Message {
	m := &Message{
		Version: schemaVersion, Time: now.UTC().Round(0), Host: host, Receiver: receiver,
		Entries: entries, Count: len(entries), Held: held,
	}
	for _, status := range []string{begun, lasts, resolved, happened} {
		if m.Status == "" && countOf(entries, status) > 0 {
			m.Status = status
		}
	}
	m.Title, m.Text = titleOf(m), textOf(m)
	m.Entries = entries[:min(len(entries), maxListed)]
	return m
}

func countOf(entries []Entry, status string) int {
	n := 0
	for _, e := range entries {
		if e.Status == status {
			n++
		}
	}
	return n
}
