package configs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type kind uint8

const (
	tableKind kind = iota
	arrayKind
	stringKind
	integerKind
	boolKind
	otherKind // floats, dates and times, which nothing here takes; JSON's null
	labelKind // the text of a label, whose type is what the key wants it to be
)

// node is one value of a file or of a container's labels, with its place. The
// nodes of a file are shared by all Resolve calls, so they are never changed
// after they were made.
type node struct {
	kind   kind
	at     place
	text   string // decoded, of a stringKind or labelKind; as written, of other scalars
	number int64
	items  []*node
	fields map[string]*node
	pem    *pemFile // of a text that names a file with certificates or a key; nil: it was not read
}

func newTable(at place) *node {
	return &node{kind: tableKind, at: at, fields: map[string]*node{}}
}

// textual says whether n is a text, so that n.text is what was meant.
func (n *node) textual() bool { return n.kind == stringKind || n.kind == labelKind }

// keys returns the keys of a table in the order of their places.
func (n *node) keys() []string {
	return slices.SortedFunc(maps.Keys(n.fields), func(a, b string) int {
		if d := n.fields[a].at.line - n.fields[b].at.line; d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
}

// below returns what is at a path of keys, nil when nothing is.
func (n *node) below(path string) *node {
	for key := range strings.SplitSeq(path, ".") {
		if n == nil {
			return nil
		}
		n = n.fields[key]
	}
	return n
}

// describe returns the value and its type, for messages about a wrong type.
func (n *node) describe() string {
	switch n.kind {
	case tableKind:
		return "a table"
	case arrayKind:
		return "an array"
	case stringKind:
		return quote(n.text) + " (a string)"
	case integerKind:
		return shorten(n.text) + " (an integer)"
	case boolKind:
		return n.text + " (a boolean)"
	case labelKind:
		return quote(n.text)
	}
	return shorten(n.text)
}

func shorten(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

// overlay returns base with what over sets put over it.
func overlay(base, over *node) *node {
	if base == nil || base.kind != tableKind || over.kind != tableKind {
		return over
	}
	merged := &node{kind: tableKind, at: base.at, fields: maps.Clone(base.fields)}
	for key, n := range over.fields {
		merged.fields[key] = overlay(base.fields[key], n)
	}
	return merged
}

// nodeOf returns v as a node. It is what a library has decoded: encoding/json with
// UseNumber, or TOML.
func nodeOf(v any, at place) *node {
	switch v := v.(type) {
	case map[string]any:
		n := newTable(at)
		for key, item := range v {
			n.fields[key] = nodeOf(item, at)
		}
		return n
	case []map[string]any:
		return listOf(v, at)
	case []any:
		return listOf(v, at)
	case string:
		return &node{kind: stringKind, at: at, text: v}
	case bool:
		return &node{kind: boolKind, at: at, text: strconv.FormatBool(v)}
	case int64:
		return &node{kind: integerKind, at: at, text: strconv.FormatInt(v, 10), number: v}
	case json.Number:
		if number, err := v.Int64(); err == nil {
			return &node{kind: integerKind, at: at, text: v.String(), number: number}
		}
	}
	return &node{kind: otherKind, at: at, text: fmt.Sprint(v)}
}

func listOf[T any](items []T, at place) *node {
	n := &node{kind: arrayKind, at: at}
	for _, item := range items {
		n.items = append(n.items, nodeOf(item, at))
	}
	return n
}
