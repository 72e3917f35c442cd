package configs

import (
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
	node    *node     // with the layers below it; nil: not built yet
	depth   int       // how many bases it has below it
	secret  bool      // it or one of its bases has what secretsIn finds
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

// setClaimable says whether labels may choose the spec: one with headers, which may be secrets, or certificates
// only if it says so. Those of [defaults] are for every container anyway.
func (s *fileSpec) setClaimable() {
	if n := s.own.fields["claimable"]; n != nil && n.kind == boolKind {
		s.claimable = n.text == "true"
		return
	}
	s.claimable = !s.secret
}

// secretsIn returns what the handlers of a spec have that labels must not use: "headers", which may be
// secrets, or "certificates". It is empty for none.
func secretsIn(spec *node) string {
	var handlers []*node
	for _, key := range probeKeys() {
		handlers = append(handlers, spec.below(key+".http_get"), spec.below(key+".grpc"))
	}
	for _, key := range hookKeys() {
		handlers = append(handlers, spec.below("lifecycle."+key+".http_get"))
	}
	what := ""
	for _, h := range handlers {
		if headers := h.below("headers"); headers != nil && len(headers.items) > 0 {
			return "headers"
		}
		if h == nil {
			continue
		}
		if by, _ := namesFiles(h); by != nil {
			what = "certificates"
		}
	}
	return what
}
