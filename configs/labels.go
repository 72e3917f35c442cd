package configs

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kballard/go-shellquote"
)

const (
	labelPrefix = "healthd."
	enableLabel = labelPrefix + "enable"
	specLabel   = labelPrefix + "spec"

	// Labels are written by whoever may start containers: one container must not
	// make the daemon work, log or show without end.
	maxLabels     = 64
	maxLabelKey   = 256
	maxLabelValue = 4 << 10
)

// labelTree returns the labels that set fields as a table like a [[spec]]'s, and
// what is wrong with their form.
func labelTree(labels map[string]string) (*node, Problems) {
	var problems Problems
	root := newTable(place{label: "healthd"})
	var keys []string
	for key := range labels {
		if strings.HasPrefix(key, labelPrefix) && key != enableLabel && key != specLabel {
			keys = append(keys, key)
		}
	}
	if len(keys) > maxLabels {
		return root, Problems{root.at.problem("*", "at most %d labels are allowed, there are %d", maxLabels, len(keys))}
	}
	// Sorted, a key comes before those below it.
	slices.Sort(keys)
	for _, key := range keys {
		at, path := place{label: key}, strings.TrimPrefix(key, labelPrefix)
		switch {
		case len(key) > maxLabelKey:
			problems = append(problems, at.problem(plain(path), "the key must have at most %d bytes, has %d", maxLabelKey, len(key)))
		case len(labels[key]) > maxLabelValue:
			problems = append(problems, at.problem(plain(path), "must have at most %d bytes, has %d", maxLabelValue, len(labels[key])))
		case !utf8.ValidString(labels[key]):
			problems = append(problems, at.problem(plain(path), "must be UTF-8 text"))
		case !plant(root, strings.Split(path, "."), &node{kind: labelKind, at: at, text: labels[key]}):
			problems = append(problems, at.problem(plain(path), "a label of a part of this path has a value too: only one of them can hold"))
		}
	}
	return root, problems
}

// plant puts leaf into the table at path and says whether that was possible.
func plant(table *node, path []string, leaf *node) bool {
	for _, key := range path[:len(path)-1] {
		next := table.fields[key]
		if next == nil {
			next = newTable(leaf.at)
			table.fields[key] = next
		}
		if next.kind != tableKind {
			return false
		}
		table = next
	}
	table.fields[path[len(path)-1]] = leaf
	return true
}

// overlayLabels returns the spec with the labels put over it. A handler set by a
// label replaces one of another kind that the spec has.
func overlayLabels(spec, labels *node) *node {
	base := &node{kind: tableKind, at: spec.at, fields: maps.Clone(spec.fields)}
	for _, probe := range probeKeys() {
		over, under := labels.fields[probe], base.fields[probe]
		if over == nil || under == nil || !setsHandler(over) {
			continue
		}
		kept := &node{kind: tableKind, at: under.at, fields: maps.Clone(under.fields)}
		for _, key := range handlerKeys() {
			if over.fields[key] == nil {
				delete(kept.fields, key)
			}
		}
		base.fields[probe] = kept
	}
	return overlay(base, labels)
}

func setsHandler(probe *node) bool {
	return slices.ContainsFunc(handlerKeys(), func(key string) bool { return probe.fields[key] != nil })
}

// list reads an array. In a label it is JSON, or what split makes of the text.
func (t *table) list(key string, split func(string) ([]string, error)) (*node, bool) {
	n := t.take(key)
	if n.kind == arrayKind {
		return n, true
	}
	if n.kind != labelKind {
		t.wrong(n, t.at(key), "must be an array, is %s", n.describe())
		return nil, false
	}
	if split == nil || strings.HasPrefix(strings.TrimSpace(n.text), "[") {
		list, err := parseJSON(n)
		if err != nil {
			t.wrong(n, t.at(key), "must be a JSON array: %s", err)
		}
		return list, err == nil
	}
	words, err := split(n.text)
	if err != nil {
		t.wrong(n, t.at(key), "%s", err)
		return nil, false
	}
	list := &node{kind: arrayKind, at: n.at}
	for _, word := range words {
		list.items = append(list.items, &node{kind: stringKind, at: n.at, text: word})
	}
	return list, true
}

func parseJSON(n *node) (*node, error) {
	decoder := json.NewDecoder(strings.NewReader(n.text))
	decoder.UseNumber()
	var list []any
	if err := decoder.Decode(&list); err != nil {
		return nil, errors.New("it cannot be read as one")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return fromJSON(list, n.at), nil
}

// shellWords splits as a POSIX shell does. It refuses what only a shell could
// run, which as a word of the command would be a silent mistake.
func shellWords(s string) ([]string, error) {
	words, err := shellquote.Split(s)
	if err != nil {
		return nil, errors.New("has a quote or a backslash that nothing ends")
	}
	for _, word := range words {
		if slices.Contains([]string{"|", "||", "&", "&&", ";"}, word) {
			return nil, errors.New("there is no shell to run " + word + `: use ["sh", "-c", "..."], or a JSON array if it is meant as a word`)
		}
	}
	return words, nil
}
