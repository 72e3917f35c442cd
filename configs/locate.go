package configs

import (
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxDepth bounds how many keys and arrays lead to one value: the library and our
// own walks go down by recursion.
const maxDepth = 64

// What the locator knows of TOML's grammar. Where the library takes a text, these
// must end where its tokens do.
var (
	blanks  = regexp.MustCompile(`^[ \t]*`)
	space   = regexp.MustCompile(`^(?:[ \t\r\n]|#[^\n]*)*`)
	lineEnd = regexp.MustCompile(`^[ \t]*(?:#[^\n]*)?(?:\r?\n|$)`)
	keyPart = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')`)
	// Of three quotes and more that end a string, the first two may belong to it.
	quoted = regexp.MustCompile(`(?s)^(?:"""(?:[^\\]|\\.)*?"{3,}|'''.*?'{3,}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')`)
	bare   = regexp.MustCompile(`^[^,\]}#\r\n]+`)

	// A word or an address without quotes: the library calls it a wrong number.
	word     = regexp.MustCompile(`^[^\s"'=\[{]+$`)
	bareForm = regexp.MustCompile(`^(?:[+-]?(?:inf|nan|\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+\d_]*)?)|true|false|0[xob][\da-fA-F_]*|\d+[-:][-\d:.+TtZz]*)$`)
)

// locator finds the line of every key and value of a TOML text, which the library
// keeps to itself. What a value means is left to the library: the scalars of the tree
// are as written, until fill compares the tree with what the library has read.
//
// The locator also finds what is set twice. The library drops some of that without
// a word, in the second element of an array of tables.
type locator struct {
	text string
	pos  int
	at   place // of pos

	root  *node
	made  map[*node]maker
	path  []string // of what is being read, as problems show it
	depth int      // how many arrays and inline tables are open

	problem *Problem // why it stopped, if it can tell better than the library
}

// maker is the syntax that made a table or an array. It decides what may be added.
type maker uint8

const (
	byPath   maker = iota // the a of [a.b]: anything may be added, also by [a]
	byDots                // the a of a.b = 1: by other dotted keys and by [a.c]
	byHeader              // [a] or [[a]]: by other headers
	byValue               // {} or []: nothing may be added
)

// locate reads text to its end, or until something is wrong with it.
func locate(at place, text string) *locator {
	at.line = 1
	l := &locator{text: text, at: at, root: newTable(at), made: map[*node]maker{}}
	l.document()
	return l
}

func (l *locator) document() {
	table, ok := l.root, true
	var header []string
	for l.take(space); l.pos < len(l.text); l.take(space) {
		if l.next("[") {
			l.path = nil
			table, ok = l.header()
			header = slices.Clone(l.path)
		} else {
			ok = l.pair(table)
		}
		end, ended := l.take(lineEnd)
		if !ok || !ended {
			return
		}
		if end != "" {
			l.path = slices.Clone(header)
		}
	}
}

// header reads [key] or [[key]] and returns the table that it opens.
func (l *locator) header() (*node, bool) {
	closing := "]"
	l.skip("[")
	if l.skip("[") {
		closing = "]]"
	}
	parts, ok := l.key()
	if !ok || !l.skip(closing) {
		return nil, false
	}
	table, last := l.root, len(parts)-1
	for _, part := range parts[:last] {
		if table, ok = l.child(table, part, byHeader); !ok {
			return nil, false
		}
	}
	if closing == "]]" {
		return l.item(table, parts[last])
	}
	if table, ok = l.child(table, parts[last], byPath); ok {
		table.at, l.made[table] = l.at, byHeader
	}
	return table, ok
}

// child returns the table called key in table, made when it is new. One that is there
// must not be made by more than most. For headers an array of tables is its last one.
func (l *locator) child(table *node, key string, most maker) (*node, bool) {
	l.push(key)
	n := table.fields[key]
	switch {
	case n == nil:
		n = newTable(l.at)
		table.fields[key] = n
	case n.kind == arrayKind && l.made[n] == byHeader && most == byHeader:
		l.pushIndex(len(n.items) - 1)
		n = n.items[len(n.items)-1]
	case n.kind != tableKind || l.made[n] > most:
		return nil, l.twice(n)
	}
	return n, true
}

// item returns a new element of the array of tables called key in table.
func (l *locator) item(table *node, key string) (*node, bool) {
	l.push(key)
	list := table.fields[key]
	switch {
	case list == nil:
		list = &node{kind: arrayKind, at: l.at}
		table.fields[key], l.made[list] = list, byHeader
	case key == "spec" && len(l.path) == 1 && list.kind == tableKind:
		l.path = nil
		return nil, l.wrong("a table of [spec] is at %s, before the first [[spec]] that it could belong to: write it below", list.at)
	case list.kind != arrayKind || l.made[list] != byHeader:
		return nil, l.twice(list)
	}
	l.pushIndex(len(list.items))
	n := newTable(l.at)
	list.items = append(list.items, n)
	return n, true
}

// pair reads key = value into table.
func (l *locator) pair(table *node) bool {
	parts, ok := l.key()
	if !ok || !l.skip("=") {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[:last] {
		if table, ok = l.child(table, part, byDots); !ok {
			return false
		}
		l.made[table] = byDots
	}
	key := parts[last]
	l.push(key)
	if first := table.fields[key]; first != nil {
		return l.twice(first)
	}
	l.take(blanks)
	n, ok := l.value(l.at)
	if ok {
		table.fields[key] = n
	}
	return ok
}

// key reads one part or more with dots between them.
func (l *locator) key() ([]string, bool) {
	var parts []string
	for {
		l.take(blanks)
		part, ok := l.take(keyPart)
		if ok && !isKeyRune(rune(part[0])) {
			part, ok = unquote(part)
		}
		if !ok {
			return nil, false
		}
		parts = append(parts, part)
		if len(l.path)+len(parts)+l.depth > maxDepth {
			l.push(parts[0])
			return nil, l.tooDeep()
		}
		l.take(blanks)
		if !l.skip(".") {
			return parts, true
		}
	}
}

// unquote returns what a string stands for, false when raw is none.
func unquote(raw string) (string, bool) {
	var value struct{ Text string }
	_, err := toml.Decode("text = "+raw, &value)
	return value.Text, err == nil
}

// value reads a value. Its place is that of its key, where people look, or in an
// array its own.
func (l *locator) value(at place) (n *node, ok bool) {
	l.depth++
	switch {
	case !l.next("[") && !l.next("{"):
		n = &node{kind: otherKind, at: at}
		n.text, ok = l.scalar()
	case len(l.path)+l.depth > maxDepth:
		return nil, l.tooDeep()
	case l.skip("["):
		n, ok = l.array(at)
	case l.skip("{"):
		n, ok = l.inlineTable(at)
	}
	l.depth--
	return n, ok
}

func (l *locator) array(at place) (*node, bool) {
	n := &node{kind: arrayKind, at: at}
	l.made[n] = byValue
	outside := slices.Clone(l.path)
	for l.take(space); !l.skip("]"); l.take(space) {
		l.pushIndex(len(n.items))
		item, ok := l.value(l.at)
		if !ok || !l.separator("]") {
			return nil, false
		}
		n.items = append(n.items, item)
		l.path = slices.Clone(outside)
	}
	return n, true
}

func (l *locator) inlineTable(at place) (*node, bool) {
	n := newTable(at)
	l.made[n] = byValue
	outside := len(l.path)
	for l.take(space); !l.skip("}"); l.take(space) {
		if !l.pair(n) || !l.separator("}") {
			return nil, false
		}
		l.path = l.path[:outside]
	}
	return n, true
}

// separator reads the comma after an element, which the last one need not have.
func (l *locator) separator(closing string) bool {
	l.take(space)
	return l.skip(",") || l.next(closing)
}

// scalar reads a value that is neither an array nor a table.
func (l *locator) scalar() (string, bool) {
	if l.next(`"`) || l.next("'") {
		return l.take(quoted)
	}
	if quote := curlyQuote(l.text[l.pos:]); quote != "" {
		return "", l.wrong("has the typographic quote %s: write \"", quote)
	}
	text, ok := l.take(bare)
	text = strings.TrimRight(text, " \t") // a date may have a blank inside
	if word.MatchString(text) && !bareForm.MatchString(text) {
		return "", l.wrong("must be in quotes: only numbers, dates, true and false need none")
	}
	return text, ok
}

// push goes down to key.
func (l *locator) push(key string) { l.path = append(l.path, showKey(key)) }

// pushIndex goes down to element i of an array. An array of tables at the top has no
// numbers here, because it goes on in other files.
func (l *locator) pushIndex(i int) {
	if last := len(l.path) - 1; last > 0 || l.depth > 0 {
		l.path[last] += index(i)
	}
}

// where returns the path of what is being read.
func (l *locator) where() string {
	path := slices.Clone(l.path)
	if specs := l.root.fields["spec"]; len(path) > 1 && path[0] == "spec" && specs != nil && len(specs.items) > 0 {
		path[0] += nameOf(specs.items[len(specs.items)-1])
	}
	return strings.Join(path, ".")
}

func nameOf(spec *node) string {
	if n := spec.fields["name"]; n != nil {
		if name, ok := unquote(n.text); ok && checkName(name) == "" {
			return "[" + name + "]"
		}
	}
	return ""
}

// wrong is the problem that stops the locator. It is false, as nothing was read.
func (l *locator) wrong(format string, args ...any) bool {
	p := l.at.problem(l.where(), format, args...)
	l.problem = &p
	return false
}

func (l *locator) twice(first *node) bool {
	if first.kind == arrayKind && l.made[first] == byHeader {
		return l.wrong("is an array of tables at %s: use [[ ]] to add to it", first.at)
	}
	return l.wrong("is already set at %s", first.at)
}

func (l *locator) tooDeep() bool {
	l.path = l.path[:min(len(l.path), 3)] // enough to find it by
	return l.wrong("is nested more than %d levels deep", maxDepth)
}

func (l *locator) next(s string) bool { return strings.HasPrefix(l.text[l.pos:], s) }

func (l *locator) skip(s string) bool {
	if !l.next(s) {
		return false
	}
	l.pos += len(s)
	return true
}

// take reads a token. Only tokens have line ends, so that it alone knows the line.
func (l *locator) take(token *regexp.Regexp) (string, bool) {
	found := token.FindStringIndex(l.text[l.pos:])
	if found == nil {
		return "", false
	}
	text := l.text[l.pos : l.pos+found[1]]
	l.pos += len(text)
	l.at.line += strings.Count(text, "\n")
	return text, true
}
