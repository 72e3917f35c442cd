package configs

import (
	"slices"
	"strconv"

	"healthd/supervisor/core"
)

// fileSpec is one [[spec]] as the files have it.
type fileSpec struct {
	name    string
	index   int // from 1, over all files
	matcher matcher
	own     *node     // as it was written
	base    *fileSpec // what it extends; nil: nothing
	node    *node     // with the layers below it
	// partial says that other specs extend it and no container matches it: it need not be complete.
	partial   bool
	claimable bool // by the label healthd.spec
}

// prefix returns how problems call the spec.
func (s *fileSpec) prefix() string {
	if s.name == "" {
		return "spec[#" + strconv.Itoa(s.index) + "]."
	}
	return "spec[" + s.name + "]."
}

// readFileSpec reads what is the [[spec]]'s own: its name, match and what it extends.
func readFileSpec(n *node, index int) (*fileSpec, Problems) {
	s := &fileSpec{index: index, own: n}
	if name := n.fields["name"]; name != nil && name.textual() && checkName(name.text) == "" {
		s.name = name.text
	}
	r := &reader{prefix: s.prefix()}
	t := r.root(n)
	if !t.missing("name") {
		t.text("name", "", checkName)
	}
	if t.has("extends") {
		t.text("extends", "", checkName)
	}
	s.matcher = readMatcher(t)
	if t.has("claimable") {
		t.boolean("claimable", false)
	}
	return s, r.problems
}

// check returns what is wrong with the spec and the layers below it, as it is without labels.
func (s *fileSpec) check() Problems {
	r := &reader{prefix: s.prefix(), partial: s.partial}
	readSpec(r, withoutTimingOnly(s.node, s.own))
	return r.problems
}

// read returns the spec as it is without labels.
func (s *fileSpec) read() *core.Spec { return readSpec(&reader{}, withoutTimingOnly(s.node, s.own)) }

// setClaimable says whether labels may choose the spec: one with headers, which may be secrets,
// only if it says so. Those of [defaults] are for every container anyway.
func (s *fileSpec) setClaimable() {
	if n := s.own.fields["claimable"]; n != nil && n.kind == boolKind {
		s.claimable = n.text == "true"
		return
	}
	s.claimable = true
	for b, left := s, maxDepth; b != nil && left > 0; b, left = b.base, left-1 {
		s.claimable = s.claimable && !hasSecrets(b.own)
	}
}

// hasSecrets says whether a handler of the spec has headers, which may be secrets.
func hasSecrets(spec *node) bool {
	headers := func(handler *node) bool {
		h := handler.below("http_get.headers")
		return h != nil && len(h.items) > 0
	}
	probe := func(key string) bool { return headers(spec.fields[key]) }
	hook := func(key string) bool { return headers(spec.below("lifecycle." + key)) }
	return slices.ContainsFunc(probeKeys(), probe) || slices.ContainsFunc(hookKeys(), hook)
}
