package notify

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

var update = flag.Bool("update", false, "rewrite the stories")

// TestStories plays each file of testdata/stories: lines of "TIME  words" change what the board shows or the
// history has; below each is written what one receiver is told. -update rewrites them; review them like code.
//
//	wrong REASON SUBJECT [cause]   it looks wrong; SUBJECT is a container, a service with a slash, or -
//	unknown REASON SUBJECT         nobody can say
//	right REASON SUBJECT           it is over
//	event REASON CONTAINER text    the history has an event
//	want REASON…                   a reload changes what the receiver wants
//	restart                        healthd is killed and started again
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d stories: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newStory(t).play(string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("got:\n%s\nwant:\n%s", got, text)
			}
		})
	}
}

type story struct {
	t         *testing.T
	now       time.Time
	facts     facts
	incidents incidents
	box       *outbox
	receiver  Receiver
	out       strings.Builder
	next      time.Time
}

var dawn = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func newStory(t *testing.T) *story {
	return &story{
		t: t, now: dawn, incidents: newIncidents(), box: newOutbox(),
		facts:    facts{wrong: map[string]finding{}, ending: map[string]ending{}, unsettled: map[string]bool{}},
		receiver: Receiver{Name: "oncall", Reasons: Reasons(), GroupWait: 10 * time.Second, Repeat: 4 * time.Hour, MaxPerHour: 20},
	}
}

// play returns the story with what follows from it.
func (s *story) play(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // what an earlier play has written
		}
		clock, words, found := strings.Cut(line, "  ")
		after, err := time.ParseDuration(clock)
		if !found || err != nil {
			fmt.Fprintln(&s.out, line)
			continue
		}
		s.runUntil(dawn.Add(after))
		fmt.Fprintln(&s.out, line)
		s.apply(strings.Fields(words))
		s.step()
	}
	return s.out.String()
}

// runUntil steps whenever something is due, as Run does.
func (s *story) runUntil(end time.Time) {
	for steps := 0; !s.next.IsZero() && !s.next.After(end); steps++ {
		if steps > 10_000 {
			s.t.Fatalf("it is due again and again at %v", s.next)
		}
		s.now = s.next
		s.step()
	}
	s.now = end
}

func (s *story) step() {
	f := s.facts
	f.wrong = map[string]finding{}
	for key, found := range s.facts.wrong {
		f.wrong[key] = found
	}
	due := s.incidents.step(f, s.now)
	m, next := s.box.step(&s.receiver, "host1", s.incidents.open, s.now)
	if m != nil {
		fmt.Fprintf(&s.out, "    %v  [%s] %s\n", s.now.Sub(dawn), m.Status, m.Title)
		if m.Held > 0 {
			fmt.Fprintf(&s.out, "    %d were held back\n", m.Held)
		}
	}
	s.next = earliest(due, next)
	if m != nil && !s.next.After(s.now) {
		s.next = s.now.Add(time.Nanosecond)
	}
}

func (s *story) apply(words []string) {
	switch words[0] {
	case "restart":
		s.restart()
		return
	case "want":
		s.receiver.Reasons = words[1:]
		return
	case "nothing":
		return
	}
	of := subjectFrom(words[1], words[2])
	switch words[0] {
	case "wrong":
		after := map[string]time.Duration{ServiceDown: downAfter, RuntimeLost: lostAfter, JournalFailed: lostAfter}[words[1]]
		s.facts.wrong[of.key()] = finding{incident{subject: of, Cause: strings.Join(words[3:], " ")}, after}
		delete(s.facts.unsettled, of.key())
	case "restarts":
		var n int
		if _, err := fmt.Sscan(words[3], &n); err != nil {
			s.t.Fatal(err)
		}
		s.facts.ending[of.key()] = ending{incident{subject: of}, n}
		s.facts.unsettled[of.key()] = true
	case "unknown":
		delete(s.facts.wrong, of.key())
		s.facts.unsettled[of.key()] = true
	case "right":
		delete(s.facts.wrong, of.key())
		delete(s.facts.ending, of.key())
		delete(s.facts.unsettled, of.key())
	case "event":
		if s.receiver.wants(&of) {
			s.box.addEvent(of, &core.Event{Time: s.now, Reason: of.Reason, Message: strings.Join(words[3:], " ")})
		}
	default:
		s.t.Fatalf("unknown words %q", words)
	}
}

func subjectFrom(reason, name string) subject {
	of := subject{Reason: reason}
	switch {
	case strings.Contains(name, "/"):
		of.Service, of.Project = name, strings.Split(name, "/")[0]
	case reason == RuntimeLost:
		of.Runtime = name
	case name != "-":
		of.Container, of.Runtime = name, "docker"
	}
	return of
}

// restart keeps what is in the file, and nothing else.
func (s *story) restart() {
	boxes := keptOf(0, map[string]*outbox{"oncall": s.box}).boxes()
	s.box, s.incidents = boxes["oncall"], newIncidents()
	for key, t := range s.box.Told {
		s.incidents.open[key] = incident{subject: t.subject, Since: t.Since}
	}
}
