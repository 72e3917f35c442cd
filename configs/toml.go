package configs

import (
	"errors"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML returns the text of a file as a table in which every value knows its
// line. The error is a Problem's.
func parseTOML(at place, data []byte) (*node, error) {
	// The decoder checks what the parser alone does not: keys set twice, tables
	// that are none.
	var discard map[string]any
	if err := toml.Unmarshal(data, &discard); err != nil {
		return nil, syntaxProblem(at, data, err)
	}
	b := newBuilder(at, data)
	root, _ := b.build(math.MaxInt) // of any line
	if err := b.parser.Error(); err != nil {
		return nil, syntaxProblem(at, data, err)
	}
	return root, nil
}

func syntaxProblem(at place, data []byte, err error) Problems {
	text, path := err.Error(), ""
	line := 1
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = decode.Position()
		line = max(line, 1)
		path = newBuilder(at, data).path(line, decode.Key())
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?' // of a key that the message repeats
		}
		return r
	}, strings.TrimPrefix(text, "toml: "))
	at.line = line
	return Problems{at.problem(path, "%s", text)}
}

// tomlBuilder makes nodes of a document that the decoder has found correct.
type tomlBuilder struct {
	parser unstable.Parser
	at     place
	lines  []int // offsets of the newlines
}

func newBuilder(at place, data []byte) *tomlBuilder {
	b := &tomlBuilder{at: at}
	for i, c := range data {
		if c == '\n' {
			b.lines = append(b.lines, i)
		}
	}
	b.parser.Reset(data)
	return b
}

// build returns what stands before a line, and the header that is open there; of a
// line that is a header itself, none.
func (b *tomlBuilder) build(line int) (root *node, header []string) {
	at := b.at
	at.line = 1
	root = newTable(at)
	table := root
	for b.parser.NextExpression() {
		e := b.parser.Expression()
		key, is := b.key(e)
		switch {
		case is == line && e.Kind != unstable.KeyValue:
			return root, nil
		case is >= line:
			return root, header
		}
		switch e.Kind {
		case unstable.Table:
			table, header = b.header(root, e.Key(), false), key
		case unstable.ArrayTable:
			table, header = b.header(root, e.Key(), true), key
		case unstable.KeyValue:
			b.set(table, e)
		}
	}
	return root, header
}

// key returns the parts of an expression's key, and its line; that of a comment is 0.
func (b *tomlBuilder) key(e *unstable.Node) (parts []string, line int) {
	if e.Kind == unstable.Comment {
		return nil, 0
	}
	for key := e.Key(); key.Next(); {
		if line == 0 {
			line = b.place(key.Node().Raw).line
		}
		parts = append(parts, string(key.Node().Data))
	}
	return parts, line
}

// path returns where the key stands that the decoder found wrong on a line, as other
// problems call it; empty where it names none.
func (b *tomlBuilder) path(line int, key []string) string {
	if len(key) == 0 {
		return ""
	}
	root, header := b.build(line)
	key = append(slices.Clone(header), key...) // the decoder's is within its table
	parts := make([]string, len(key))
	for i, part := range key {
		parts[i] = showKey(part)
	}
	if specs := root.fields["spec"]; key[0] == "spec" && specs != nil && len(specs.items) > 0 {
		parts[0] += nameOf(specs.items[len(specs.items)-1])
	}
	return strings.Join(parts, ".")
}

func nameOf(spec *node) string {
	if name := spec.fields["name"]; name != nil && name.textual() && checkName(name.text) == "" {
		return "[" + name.text + "]"
	}
	return ""
}

func (b *tomlBuilder) place(r unstable.Range) place {
	at := b.at
	at.line = 1 + sort.SearchInts(b.lines, int(r.Offset))
	return at
}

// header returns the table that [key] or, with array, [[key]] opens.
func (b *tomlBuilder) header(root *node, key unstable.Iterator, array bool) *node {
	table := root
	for key.Next() {
		part := key.Node()
		at, name := b.place(part.Raw), string(part.Data)
		if !key.IsLast() {
			table = b.descend(table, name, at)
			continue
		}
		if !array {
			table = b.descend(table, name, at)
			table.at = at
			continue
		}
		list := table.fields[name]
		if list == nil {
			list = &node{kind: arrayKind, at: at}
			table.fields[name] = list
		}
		table = newTable(at)
		list.items = append(list.items, table)
	}
	return table
}

// descend returns the table called name in table, made when it is new; of an
// array of tables, the last one.
func (b *tomlBuilder) descend(table *node, name string, at place) *node {
	n := table.fields[name]
	if n != nil && n.kind == arrayKind && len(n.items) > 0 {
		n = n.items[len(n.items)-1]
	}
	if n == nil || n.kind != tableKind {
		n = newTable(at)
		table.fields[name] = n
	}
	return n
}

func (b *tomlBuilder) set(table *node, e *unstable.Node) {
	key := e.Key()
	for key.Next() {
		part := key.Node()
		at, name := b.place(part.Raw), string(part.Data)
		if key.IsLast() {
			table.fields[name] = b.value(e.Value(), at)
			return
		}
		table = b.descend(table, name, at)
	}
}

// value returns n with the place of its key: that is where people look.
func (b *tomlBuilder) value(n *unstable.Node, at place) *node {
	v := &node{kind: otherKind, at: at, text: string(n.Data)}
	switch n.Kind {
	case unstable.String:
		v.kind = stringKind
	case unstable.Bool:
		v.kind = boolKind
	case unstable.Integer:
		if number, err := strconv.ParseInt(v.text, 0, 64); err == nil {
			v.kind, v.number = integerKind, number
		}
	case unstable.Array:
		v.kind = arrayKind
		for it := n.Children(); it.Next(); {
			v.items = append(v.items, b.item(it.Node(), at))
		}
	case unstable.InlineTable:
		v = newTable(at)
		for it := n.Children(); it.Next(); {
			b.set(v, it.Node())
		}
	}
	return v
}

// item returns one element of an array with its own line where the parser says
// which that is.
func (b *tomlBuilder) item(n *unstable.Node, array place) *node {
	if n.Raw.Length > 0 {
		return b.value(n, b.place(n.Raw))
	}
	return b.value(n, array)
}
