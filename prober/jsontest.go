package prober

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxJSONDepth bounds how deep arrays and objects of a body that JSON is read from may be nested.
const maxJSONDepth = 64

// JSONTest is a test of a JSON text:
//
//	status == 'up' && checks.db[0].latency < 0.5 && ready
//
// It is one or more comparisons PATH OP VALUE, joined by &&, all of which must hold. A PATH is
// keys and indexes: a.b[0].c, [0]['a key'], "a key".b. OP is == != < <= > >=, of which the last
// four compare numbers. A VALUE is 'text', "text", a number, true, false or null. A PATH alone
// holds when it is there and is neither false nor null. A comparison of a path that is not
// there never holds.
type JSONTest struct{ comparisons []comparison }

// comparison is one PATH OP VALUE; without op it is a PATH alone.
type comparison struct {
	text  string // as written
	path  []pathPart
	op    string
	value any // string, json.Number, bool, nil
}

// pathPart is a key of an object, or an index of an array.
type pathPart struct {
	key     string
	index   int
	isIndex bool
}

// String returns the path as it is written.
func (c comparison) pathText() string {
	var b strings.Builder
	for i, part := range c.path {
		switch {
		case part.isIndex:
			b.WriteString("[" + strconv.Itoa(part.index) + "]")
		case part.key == "" || strings.ContainsFunc(part.key, func(r rune) bool { return !isPathRune(r) }):
			b.WriteString("[" + strconv.Quote(part.key) + "]")
		case i > 0:
			b.WriteString("." + part.key)
		default:
			b.WriteString(part.key)
		}
	}
	return b.String()
}

// Unmet returns why the test does not hold of a JSON text, or empty. The reason has the value
// of the path that decided, cut to a short text.
func (t *JSONTest) Unmet(text []byte) string {
	if nestedDeeper(text, maxJSONDepth) {
		return fmt.Sprintf("the body is JSON of more than %d levels", maxJSONDepth)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil || len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return "the body is not JSON"
	}
	for _, c := range t.comparisons {
		value, ok := lookup(root, c.path)
		if !ok {
			return fmt.Sprintf("%s does not hold: the body has no %s", shortQuote(c.text), shortQuote(c.pathText()))
		}
		if !c.holds(value) {
			return fmt.Sprintf("%s does not hold: %s is %s", shortQuote(c.text), c.pathText(), describeJSON(value))
		}
	}
	return ""
}

// nestedDeeper says whether a text that may be JSON has more than so many levels. The decoder
// would take 10,000.
func nestedDeeper(text []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

func lookup(value any, path []pathPart) (any, bool) {
	for _, part := range path {
		if part.isIndex {
			list, ok := value.([]any)
			if !ok || part.index >= len(list) {
				return nil, false
			}
			value = list[part.index]
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[part.key]; !ok {
			return nil, false
		}
	}
	return value, true
}

func (c comparison) holds(value any) bool {
	switch c.op {
	case "":
		return value != nil && value != false
	case "==":
		return equalJSON(value, c.value)
	case "!=":
		return !equalJSON(value, c.value)
	}
	number, ok := value.(json.Number)
	if !ok {
		return false
	}
	order, ok := compareNumbers(number, c.value.(json.Number))
	switch {
	case !ok:
		return false
	case c.op == "<":
		return order < 0
	case c.op == "<=":
		return order <= 0
	case c.op == ">":
		return order > 0
	}
	return order >= 0
}

// equalJSON compares a value of a body with one of a test, which is neither an array nor an object.
func equalJSON(value, want any) bool {
	switch value := value.(type) {
	case json.Number:
		number, ok := want.(json.Number)
		if !ok {
			return false
		}
		order, ok := compareNumbers(value, number)
		return ok && order == 0
	case []any, map[string]any:
		return false
	}
	return value == want
}

// compareNumbers compares integers exactly, and others as floating point. ok is false where
// one of them is too large for that.
func compareNumbers(a, b json.Number) (order int, ok bool) {
	m, errM := a.Int64()
	n, errN := b.Int64()
	if errM == nil && errN == nil {
		return cmp.Compare(m, n), true
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return cmp.Compare(x, y), errX == nil && errY == nil
}

func describeJSON(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return shortQuote(value)
	case json.Number:
		if len(value) > maxQuote {
			return string(value[:maxQuote]) + "…"
		}
		return string(value)
	case bool:
		return strconv.FormatBool(value)
	case []any:
		return "an array"
	}
	return "an object"
}
