package configs

import (
	"strconv"
	"strings"
)

// fileSpec is one [[spec]] as the files have it.
type fileSpec struct {
	name      string
	index     int // from 1, over all files
	match     []pattern
	node      *node
	claimable bool // by the label healthd.spec
}

// pattern is one entry of match.
type pattern struct{ label, glob string }

// prefix returns how problems call the spec.
func (s *fileSpec) prefix() string {
	if s.name == "" {
		return "spec[#" + strconv.Itoa(s.index) + "]."
	}
	return "spec[" + s.name + "]."
}

func (s *fileSpec) matches(labels map[string]string) bool {
	for _, p := range s.match {
		if value, ok := labels[p.label]; !ok || !glob(p.glob, value) {
			return false
		}
	}
	return len(s.match) > 0
}

func (s *fileSpec) describeMatch() string {
	parts := make([]string, len(s.match))
	for i, p := range s.match {
		parts[i] = p.label + "=" + p.glob
	}
	return strings.Join(parts, ", ")
}

// readFileSpec reads name and match of a [[spec]], and checks the rest as it is
// without labels.
func readFileSpec(n *node, index int) (*fileSpec, Problems) {
	s := &fileSpec{index: index, node: n}
	if name := n.fields["name"]; name != nil && name.textual() && checkName(name.text) == "" {
		s.name = name.text
	}
	r := &reader{prefix: s.prefix()}
	t := r.root(n)
	if !t.missing("name") {
		t.text("name", "", checkName)
	}
	s.match = readMatch(t.sub("match"))
	s.readClaimable(t)
	readSpec(r, n)
	return s, r.problems
}

func readMatch(t *table) []pattern {
	if t.n == nil {
		return nil
	}
	var patterns []pattern
	for _, key := range t.n.keys() {
		value := t.text(key, "", checkNotEmpty)
		if key == "" {
			t.wrong(t.n.fields[key], t.at(key), "must not be an empty label name")
		}
		patterns = append(patterns, pattern{key, value})
	}
	return patterns
}

// readClaimable reads whether labels may choose the spec: one with headers, which may be secrets,
// only if it says so.
func (s *fileSpec) readClaimable(t *table) {
	headers := func(handler *node) bool {
		h := handler.below("http_get.headers")
		return h != nil && len(h.items) > 0
	}
	secrets := false
	for _, key := range probeKeys() {
		secrets = secrets || headers(s.node.fields[key])
	}
	for _, key := range hookKeys() {
		secrets = secrets || headers(s.node.below("lifecycle."+key))
	}
	s.claimable = t.boolean("claimable", !secrets)
}
