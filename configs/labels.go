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
func labelTree(labels map[string]string, allow []string) (*node, Problems) {
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
		case !isText(key) || !isText(labels[key]):
			problems = append(problems, at.problem(plain(path), "must be UTF-8 text"))
		case !anyGlob(allow, path):
			problems = append(problems, at.problem(plain(path), "cannot be set by a label: [labels] allow does not have it"))
		case !plant(root, strings.Split(path, "."), &node{kind: labelKind, at: at, text: labels[key]}):
			problems = append(problems, at.problem(plain(path), "another label sets a part of this path: remove one of them"))
		}
	}
	return root, problems
}

// isText says that s was UTF-8 when somebody wrote it: what is read from an engine has U+FFFD in the
// place of other bytes.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError) }

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

// dropReplaced returns a copy of under in which the tables called names are without
// the handlers that those of over replace. What is no table there is wrong already, and stays.
func dropReplaced(under, over *node, names, handlers []string) *node {
	kept := cloneTable(under)
	for _, name := range names {
		set := func(key string) bool { return over.fields[name].fields[key] != nil }
		below := kept.fields[name]
		if over.fields[name] == nil || below == nil || below.kind != tableKind || !slices.ContainsFunc(handlers, set) {
			continue
		}
		table := cloneTable(below)
		for _, key := range handlers {
			if !set(key) {
				delete(table.fields, key)
			}
		}
		kept.fields[name] = table
	}
	return kept
}

func cloneTable(n *node) *node {
	return &node{kind: tableKind, at: n.at, fields: maps.Clone(n.fields)}
}

func parseJSON(n *node) (*node, error) {
	decoder := json.NewDecoder(strings.NewReader(n.text))
	decoder.UseNumber()
	var list []any
	if err := decoder.Decode(&list); err != nil {
		return nil, errors.New("healthd cannot parse it")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after it")
	}
	return nodeOf(list, n.at), nil
}

// shellWords splits as a POSIX shell does. It refuses what only a shell could
// run, which as a word of the command would be a silent mistake.
func shellWords(s string) ([]string, error) {
	words, err := shellquote.Split(s)
	if err != nil {
		return nil, errors.New("has an open quote, or a backslash at its end")
	}
	for _, word := range words {
		if slices.Contains([]string{"|", "||", "&", "&&", ";"}, word) {
			return nil, errors.New("no shell runs this, so " + word + ` does nothing: use ["sh", "-c", "..."], or a JSON array to pass it as a word`)
		}
	}
	return words, nil
}
