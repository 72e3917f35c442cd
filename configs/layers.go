package configs

import (
	"slices"
)

// A container's settings come in layers, each over those below it:
//
//	[defaults]                      every spec, and every container with labels only
//	the spec that extends names     and so on down
//	the [[spec]]                    the container's own
//	labels                          of the container
//
// What a layer does not set, the next below it does. A handler in one replaces another kind of handler
// below it, as it does in a label. Arrays replace each other whole.

// ownKeys are those of a [[spec]] that no other spec gets by extends.
func ownKeys() []string {
	return []string{"name", "extends", "match", "match_name", "match_image", "claimable"}
}

// layer returns base with over put over it. Where both have a table, its place is that of over.
func layer(base, over *node) *node {
	if base == nil {
		return over
	}
	merged := overlayHandlers(base, over)
	setPlaces(merged, over)
	return merged
}

// setPlaces gives the tables of merged, which are copies, the places that they have in over.
func setPlaces(merged, over *node) {
	merged.at = over.at
	for key, n := range over.fields {
		if m := merged.fields[key]; m != n && m.kind == tableKind && n.kind == tableKind {
			setPlaces(m, n)
		}
	}
}

// inherited returns what a spec gives to those that extend it.
func inherited(spec *node) *node {
	base := cloneTable(spec)
	for _, key := range ownKeys() {
		delete(base.fields, key)
	}
	return base
}

// overlayHandlers is overlay of specs. A handler that over sets replaces one of another kind.
func overlayHandlers(under, over *node) *node {
	base := dropReplaced(under, over, probeKeys(), handlerKeys())
	const key = "lifecycle"
	if u, o := base.fields[key], over.fields[key]; u != nil && u.kind == tableKind && o != nil {
		base.fields[key] = dropReplaced(u, o, hookKeys(), hookHandlerKeys())
	}
	return overlay(base, over)
}

// withoutTimingOnly returns n without the probes that have no handler and that none of own sets: a
// layer below may say how often to probe those who have something to probe.
func withoutTimingOnly(n *node, own ...*node) *node {
	kept := cloneTable(n)
	for _, key := range probeKeys() {
		p := n.fields[key]
		if p == nil || p.kind != tableKind || slices.ContainsFunc(own, func(o *node) bool { return o.fields[key] != nil }) {
			continue
		}
		if !slices.ContainsFunc(handlerKeys(), func(handler string) bool { return p.fields[handler] != nil }) {
			delete(kept.fields, key)
		}
	}
	return kept
}

// stack gives each spec its layers. It reports who extends a spec that is not there, or itself.
func (l *loader) stack(specs []*fileSpec, defaults *node) {
	byName := map[string]*fileSpec{}
	for _, s := range specs {
		if byName[s.name] == nil {
			byName[s.name] = s
		}
	}
	for _, s := range specs {
		s.base = l.findBase(s, specs, byName)
	}
	l.cutCircles(specs)
	for _, s := range specs {
		s.build(defaults)
		if s.base != nil && s.base.matcher.none() {
			s.base.partial = true
		}
	}
}

// cutCircles reports the specs whose bases lead back to them. Without these they need not be complete.
func (l *loader) cutCircles(specs []*fileSpec) {
	var circles []*fileSpec
	for _, s := range specs {
		if s.inCircle(len(specs)) {
			circles = append(circles, s)
		}
	}
	for _, s := range circles {
		l.wrong(s.own.fields["extends"], s.prefix()+"extends", "must not lead back to the spec itself")
		s.base, s.partial = nil, true
	}
}

// OwnSpecNames returns the names of the specs that containers may be expected to have, in file order: not
// those that match nothing and are there for others to extend.
func (c *Config) OwnSpecNames() []string {
	var names []string
	for _, s := range c.specs {
		if !s.partial {
			names = append(names, s.name)
		}
	}
	return names
}

// findBase returns the spec that s extends, nil for none.
func (l *loader) findBase(s *fileSpec, specs []*fileSpec, byName map[string]*fileSpec) *fileSpec {
	n := s.own.fields["extends"]
	if n == nil || !n.textual() || checkName(n.text) != "" {
		return nil
	}
	base := byName[n.text]
	if base == nil && !l.incomplete {
		var names []string
		for _, other := range specs {
			names = append(names, other.name)
		}
		l.wrong(n, s.prefix()+"extends", "there is no spec named %s%s", quote(n.text), didYouMean(n.text, names))
	}
	return base
}

// inCircle says whether the bases of s, at most so many, lead back to it.
func (s *fileSpec) inCircle(most int) bool {
	for b := s.base; b != nil && most > 0; b, most = b.base, most-1 {
		if b == s {
			return true
		}
	}
	return false
}

// build puts the spec over its bases and the defaults. It builds the bases first, each once: many
// specs may extend each other.
func (s *fileSpec) build(defaults *node) {
	if s.node != nil {
		return
	}
	below := defaults
	s.secret = secretsIn(s.own) != ""
	if s.base != nil {
		s.base.build(defaults)
		below, s.depth = inherited(s.base.node), s.base.depth+1
		s.secret = s.secret || s.base.secret
	}
	s.node = layer(below, s.own)
}

// checkDefaults reports what is wrong with [defaults], which need not be complete.
func (l *loader) checkDefaults(n *node) {
	if n == nil {
		return
	}
	r := &reader{prefix: "defaults.", partial: true}
	t := r.root(n)
	for _, key := range ownKeys() {
		if key != "claimable" {
			t.forbid(key, "must not be set in [defaults], which are for every container that healthd supervises")
		}
	}
	switch secrets := secretsIn(n); {
	case t.boolean("claimable", false) || secrets == "":
	case secrets == "certificates":
		t.wrong(n, "", "has certificates, and every container with a label of healthd is asked with them: put them into a [[spec]], or set claimable = true here")
	default:
		t.wrong(n, "", "has headers, which may be secrets, and every container with a label of healthd gets them: put them into a [[spec]], or set claimable = true here")
	}
	readSpec(r, n)
	l.problems = slices.Concat(l.problems, r.problems, l.checkScope(r.prefix, n))
}

// checkSpecs reports what is wrong with the specs in their layers. What a spec has from another one
// is reported there: bases come first.
func (l *loader) checkSpecs(specs []*fileSpec) {
	told := map[Problem]bool{}
	key := func(p Problem) Problem { return Problem{File: p.File, Line: p.Line, Text: p.Text, order: p.order} }
	for _, p := range l.problems {
		told[key(p)] = true
	}
	byDepth := slices.Clone(specs)
	slices.SortStableFunc(byDepth, func(a, b *fileSpec) int { return a.depth - b.depth })
	for _, s := range byDepth {
		s.setClaimable()
		found := slices.Concat(s.check(), l.checkPush(s), l.checkScope(s.prefix(), s.node))
		inherits := s.base != nil || l.sections["defaults"] != nil
		for _, p := range found {
			if !inherits || !told[key(p)] {
				l.problems = append(l.problems, p)
			}
		}
		for _, p := range found {
			told[key(p)] = true
		}
	}
}
