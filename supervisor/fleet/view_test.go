package fleet

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

var updateFlag = flag.Bool("update", false, "rewrite the transcripts")

// A story is a file of two parts: what a store tells one host, and, after a line of dashes, what the host shows then. A line is
// TIME list|event REVISION WHAT; WHAT …, TIME resume|progress REVISION, TIME ask or TIME break|stood. WHAT is HOST, HOST leaving, HOST CONTAINER
// STATE [REVISION] or, for what is deleted, -HOST or -HOST CONTAINER. The TTL is 10 s.
func TestViewStories(t *testing.T) {
	files, err := filepath.Glob("testdata/view/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playView(t, file) })
	}
}

func playView(t *testing.T, file string) {
	const separator = "\n----\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script, want, _ := strings.Cut(string(text), separator)
	p := &viewPlay{view: newView("h0", 10*time.Second, false)}
	lines := bufio.NewScanner(strings.NewReader(script))
	for n := 1; lines.Scan(); n++ {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			if err := p.line(line); err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
		}
	}
	for _, h := range p.view.hostList() {
		fmt.Fprintf(&p.out, "%s is %s since %v: %d ready, %d draining, %d down\n", h.Name, h.State, h.Since.Sub(playBegin), h.Members.Ready, h.Members.Draining, h.Members.Down)
	}
	got := p.out.String()
	if *updateFlag {
		if err := os.WriteFile(file, []byte(strings.TrimRight(script, "\n")+separator+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

var playBegin = time.Unix(1e9, 0)

type viewPlay struct {
	view *view
	now  time.Duration
	out  strings.Builder
}

func (p *viewPlay) clock() time.Time { return playBegin.Add(p.now) }

func (p *viewPlay) line(line string) error {
	at, rest, _ := strings.Cut(line, " ")
	until, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	p.passUntil(until)
	verb, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	number, what, _ := strings.Cut(strings.TrimSpace(rest), " ")
	revision, _ := strconv.ParseInt(number, 10, 64)
	records, err := records(what, revision)
	if err != nil {
		return err
	}
	fmt.Fprintf(&p.out, "%-6v %s\n", p.now, strings.TrimSpace(verb+" "+rest))
	switch verb {
	case "list":
		changes, back := p.view.list(records, revision, p.clock())
		if back {
			fmt.Fprintln(&p.out, "         the store went back")
		}
		p.show(changes)
	case "event":
		if p.view.wentBack(revision, true) {
			fmt.Fprintln(&p.out, "         it is behind")
		}
		p.show(p.view.events(records, revision, p.clock()))
	case "resume":
		p.show(p.view.resume(revision, p.clock()))
	case "progress":
		if p.view.wentBack(revision, false) {
			fmt.Fprintln(&p.out, "         it is behind")
		}
		p.view.progress(revision)
	case "ask":
		p.view.ask()
	case "break":
		p.view.broke(p.clock())
	case "stood":
		p.view.stood(p.clock())
	case "wait":
	default:
		return fmt.Errorf("%s is no verb", verb)
	}
	return nil
}

// passUntil ticks whenever the view wants it.
func (p *viewPlay) passUntil(until time.Duration) {
	for {
		next := p.view.next(p.clock())
		if next.IsZero() || next.Sub(playBegin) > until { // waits: times of a play
			break
		}
		p.now = next.Sub(playBegin)
		p.tick()
	}
	if p.now = until; until >= forgetAfter {
		p.tick()
	}
}

func (p *viewPlay) tick() {
	if c := p.view.tick(p.clock()); len(c.put)+len(c.gone)+len(c.tell) > 0 || c.hosts {
		fmt.Fprintf(&p.out, "%v\n", p.now)
		p.show(c)
	}
}

func (p *viewPlay) show(c *changes) {
	for _, r := range c.put {
		fmt.Fprintf(&p.out, "         shows %s:%s %s of %s\n", r.host, r.Container, r.State, r.service)
	}
	for _, id := range c.gone {
		fmt.Fprintf(&p.out, "         removes %s\n", id)
	}
	for _, told := range c.tell {
		fmt.Fprintf(&p.out, "         %s %q\n", told.reason, told.message)
	}
}

func records(text string, revision int64) (all []record, err error) {
	for what := range strings.SplitSeq(text, ";") {
		if what = strings.TrimSpace(what); what == "" {
			continue
		}
		what, deleted := strings.CutPrefix(what, "-")
		words := strings.Fields(what)
		r := record{rev: revision, deleted: deleted}
		if len(words) == 1 || words[1] == "leaving" {
			r.name = key{kind: hostKey, host: words[0]}.String()
			r.value = []byte(fmt.Sprintf(`{"instance":"%032x","leaving":%t}`, 1, len(words) > 1))
		} else {
			r.name = key{kind: memberKey, service: "web", host: words[0], container: words[1]}.String()
			if !deleted {
				r.value, err = memberRecord(words)
			}
		}
		if strings.HasPrefix(what, "raw/") { // somebody else's
			r.name, r.value = strings.TrimPrefix(words[0], "raw/"), []byte("x")
		}
		all = append(all, r)
	}
	return all, err
}

func memberRecord(words []string) ([]byte, error) {
	v := memberValue{Container: words[1], ID: words[1], Run: 1, Address: "10.0.0.1", Port: 80, State: words[2], Phase: core.PhaseRunning, Revision: 1}
	if len(words) > 3 {
		n, err := strconv.ParseUint(words[3], 10, 64)
		if err != nil {
			return nil, err
		}
		v.Revision = n
	}
	text, err := v.encode()
	return []byte(text), err
}
