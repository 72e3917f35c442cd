package configs

import (
	"fmt"
	"slices"
	"strings"

	"healthd/runtime"
)

// matcher is which containers a [[spec]] is for: each of match, match_name and match_image that it
// has must hold. One without any is for none.
type matcher struct {
	labels      []alternative // match: one of them must hold
	name, image string        // patterns; empty: any
}

// alternative is a table of labels that must all match.
type alternative []pattern

// pattern is one entry of match.
type pattern struct{ label, glob string }

const maxAlternatives = 100

func (m *matcher) none() bool { return len(m.labels) == 0 && m.name == "" && m.image == "" }

// matches says whether the container fits, and by which of the alternatives. It does not look at
// an image that is not known.
func (m *matcher) matches(t runtime.Traits) (by alternative, ok bool) {
	if m.none() || m.name != "" && !glob(m.name, t.Name) || m.image != "" && !glob(m.image, t.Image) {
		return nil, false
	}
	if len(m.labels) == 0 {
		return nil, true
	}
	i := slices.IndexFunc(m.labels, func(a alternative) bool { return a.matches(t.Labels) })
	if i < 0 {
		return nil, false
	}
	return m.labels[i], true
}

func (a alternative) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(a, func(p pattern) bool {
		value, ok := labels[p.label]
		return !ok || !glob(p.glob, value)
	})
}

// describe returns what holds for a container that fits by the alternative.
func (m *matcher) describe(by alternative) string {
	var parts []string
	if len(by) > 0 {
		parts = append(parts, "match "+by.String())
	}
	if m.name != "" {
		parts = append(parts, "match_name "+m.name)
	}
	if m.image != "" {
		parts = append(parts, "match_image "+m.image)
	}
	return strings.Join(parts, ", ")
}

// String returns the labels as an operator would write them.
func (a alternative) String() string {
	parts := make([]string, len(a))
	for i, p := range a {
		parts[i] = p.label + "=" + p.glob
	}
	return strings.Join(parts, ", ")
}

// missed says all that keeps the container from fitting, each in words of its own. It is empty for
// one that fits.
func (m *matcher) missed(t runtime.Traits) []string {
	var missed []string
	if m.name != "" && !glob(m.name, t.Name) {
		missed = append(missed, fmt.Sprintf("its name is %s, not %s", quote(t.Name), m.name))
	}
	switch {
	case m.image == "" || glob(m.image, t.Image):
	case t.Image == "":
		missed = append(missed, "its image is not known, but must be "+m.image)
	default:
		missed = append(missed, fmt.Sprintf("its image is %s, not %s", quote(t.Image), m.image))
	}
	var each []string
	for _, a := range m.labels {
		each = append(each, strings.Join(a.missed(t.Labels), ", and "))
	}
	if len(each) > 0 && !slices.Contains(each, "") {
		missed = append(missed, strings.Join(each, ", or "))
	}
	return missed
}

func (a alternative) missed(labels map[string]string) []string {
	var missed []string
	for _, p := range a {
		switch value, ok := labels[p.label]; {
		case !ok:
			missed = append(missed, "it has no label "+p.label)
		case !glob(p.glob, value):
			missed = append(missed, fmt.Sprintf("its label %s is %s, not %s", p.label, quote(value), p.glob))
		}
	}
	return missed
}

// covers says that whatever other matches, m does too.
func (m *matcher) covers(other *matcher) bool {
	if m.none() || other.none() || m.name != "" && (other.name == "" || !wider(m.name, other.name)) ||
		m.image != "" && (other.image == "" || !wider(m.image, other.image)) {
		return false
	}
	if len(m.labels) == 0 {
		return true
	}
	covered := func(o alternative) bool {
		return slices.ContainsFunc(m.labels, func(a alternative) bool { return a.covers(o) })
	}
	return len(other.labels) > 0 && !slices.ContainsFunc(other.labels, func(o alternative) bool { return !covered(o) })
}

func (a alternative) covers(other alternative) bool {
	for _, p := range a {
		fits := func(o pattern) bool { return o.label == p.label && wider(p.glob, o.glob) }
		if !slices.ContainsFunc(other, fits) {
			return false
		}
	}
	return true
}

// wider says that pattern matches whatever narrow does. Read as a text, narrow must
// match it; only a ? must not stand for a * then, which may be many characters.
func wider(pattern, narrow string) bool {
	plain := !strings.Contains(narrow, "*") || !strings.Contains(pattern, "?")
	return pattern == narrow || plain && glob(pattern, narrow)
}

// readMatcher reads match, a table or a list of tables, match_name and match_image.
func readMatcher(t *table) matcher {
	var m matcher
	if t.has("match_name") {
		m.name = t.text("match_name", "", checkNotEmpty)
	}
	if t.has("match_image") {
		m.image = t.text("match_image", "", checkNotEmpty)
	}
	const key = "match"
	n := t.take(key)
	if n == nil {
		return m
	}
	if n.kind != arrayKind {
		m.labels = t.alternative(m.labels, n, t.at(key))
		return m
	}
	if len(n.items) == 0 || len(n.items) > maxAlternatives {
		t.wrong(n, t.at(key), "must have 1 to %d tables, has %d", maxAlternatives, len(n.items))
		return m
	}
	for i, item := range n.items {
		m.labels = t.alternative(m.labels, item, t.at(key)+index(i))
	}
	return m
}

// alternative adds one table of match to all.
func (t *table) alternative(all []alternative, n *node, path string) []alternative {
	if n.kind != tableKind {
		t.wrong(n, path, "must be a table of labels such as { role = \"web\" }, is %s", n.describe())
		return all
	}
	if len(n.fields) == 0 {
		t.wrong(n, path, "must not be empty: it would match no container; to supervise every container of Compose, write { \"com.docker.compose.project\" = \"*\" }")
		return all
	}
	sub := &table{reader: t.reader, n: n, path: path}
	var a alternative
	for _, key := range n.keys() {
		if n := n.fields[key]; n.kind == tableKind {
			label, value := dotted(key, n)
			t.wrong(n, sub.at(key), "must be a string, is a table: a label with dots needs quotes: write %s = %s", quote(label), quote(value))
			continue
		}
		value := sub.text(key, "", checkNotEmpty)
		if key == "" {
			t.wrong(n.fields[key], sub.at(key), "must not be an empty label name")
		}
		a = append(a, pattern{key, value})
	}
	return append(all, a)
}
