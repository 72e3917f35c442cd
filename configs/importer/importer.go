// Package importer turns what other programs say about the health of containers into specs for
// healthd: the HEALTHCHECK of containers and the settings of the tools that restart them, Compose
// files, Kubernetes manifests and Nomad jobs. It has one file or more for each of them; all of them
// write by way of draft.go and write.go.
//
//	containers, services, objects, jobs ─▶ drafts with remarks ─▶ TOML, checked by configs.Parse
//
// What it writes is valid, and means the same as far as healthd can do it. What it cannot carry over
// is a comment at its place that says why and what to do. It reads no file and asks no engine: that is
// left to its caller. All that it is given may be hostile.
package importer

import (
	"fmt"
	"strings"
)

// Document is what came of an import.
type Document struct {
	Text  string   // TOML that configs.Parse takes
	Specs int      // how many [[spec]] it has
	Lost  int      // how many settings could not be carried over; a comment tells of each
	Notes []string // what else is to be done, such as to stop the tool that healthd replaces
}

const (
	// maxDrafts bounds the specs of one import. A host has far fewer containers.
	maxDrafts = 2000
	// maxText bounds what is written, in bytes: a short YAML file can say the same very often.
	maxText = 4 << 20
)

// lostMark begins the comment about a setting that could not be carried over.
const lostMark = "Not carried over: "

// document is a Document in the making.
type document struct {
	head   table // comments only
	drafts []*draft
	notes  []string
	names  map[string]int // how many specs wanted the name
	size   int            // bytes of the drafts, but for the newest one
}

// newDocument begins with where it is from.
func newDocument(from string) *document {
	d := &document{names: map[string]int{}}
	d.head.remark("From %s, by healthd import. Read it, write it to a file such as /etc/healthd/conf.d/imported.toml, and run healthd check and healthd reload.", from)
	d.head.remark("What could not be carried over is marked %q.", strings.TrimSpace(lostMark))
	return d
}

// add begins a spec with a name like the one that is wanted.
func (d *document) add(name string) (*draft, error) {
	if len(d.drafts) == maxDrafts {
		return nil, fmt.Errorf("there are more than %d containers: import them in parts", maxDrafts)
	}
	if n := len(d.drafts); n > 0 {
		text, _ := d.drafts[n-1].render()
		d.size += len(text)
	}
	if d.size > maxText {
		return nil, fmt.Errorf("more than %d MiB would come of it: import it in parts", maxText>>20)
	}
	s := &draft{name: d.unique(specName(name))}
	s.own = s.add("[[spec]]")
	s.own.set("name", quote(s.name))
	d.drafts = append(d.drafts, s)
	return s, nil
}

// unique returns the name, or with a number after it if another spec has it.
func (d *document) unique(name string) string {
	free := name
	for d.names[free] > 0 {
		d.names[name]++
		free = fmt.Sprintf("%s-%d", name, d.names[name])
	}
	d.names[free]++
	return free
}

// specName makes a name of a spec from a name of something else.
func specName(s string) string {
	const longest = 200 // of 253: a number may follow
	valid := func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '.' || r == '-' || isAlphanumeric(byte(r))) {
			return r
		}
		return '-'
	}
	s = strings.TrimLeft(strings.Map(valid, s), "_.-")
	if s = strings.TrimRight(s[:min(len(s), longest)], "-"); s == "" {
		return "container"
	}
	return s
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
