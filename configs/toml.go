package configs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// parseTOML returns the text of a file as a table in which every value knows its
// line. The error is a Problem's.
func parseTOML(at place, data []byte) (*node, error) {
	text := string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) // the mark of some editors
	if wrong, offset := noText(text); wrong != "" {
		at.line = lineAt(text, offset)
		return nil, Problems{at.problem("", "%s", wrong)}
	}
	// The locator goes first: it bounds the depth for the library.
	located := locate(at, text)
	if located.problem != nil {
		return nil, Problems{*located.problem}
	}
	var decoded map[string]any
	if err := toml.Unmarshal(data, &decoded); err != nil {
		return nil, syntaxProblem(at, text, err)
	}
	if !fill(located.root, decoded) {
		return nodeOf(decoded, at), nil // the file alone, rather than a wrong line
	}
	return located.root, nil
}

// CountSpecs returns how many specs the text of a file has. The error says why it is not valid TOML.
func CountSpecs(data []byte) (int, error) {
	root, err := parseTOML(place{}, data)
	if err != nil {
		return 0, err
	}
	if list := root.fields["spec"]; list != nil {
		return len(list.items), nil
	}
	return 0, nil
}

// noText returns what keeps data from being the text that TOML wants, and where.
func noText(data string) (wrong string, offset int) {
	for i, r := range data {
		rest := data[i:]
		if _, size := utf8.DecodeRuneInString(rest); r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("must be UTF-8 text, has the byte %#02x", data[i]), i
		}
		lineEnd := r == '\n' || strings.HasPrefix(rest, "\r\n")
		if unicode.IsControl(r) && r <= unicode.MaxASCII && r != '\t' && !lineEnd {
			return fmt.Sprintf("must not have the control character %U", r), i
		}
	}
	return "", 0
}

func lineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// syntaxProblem says what the library finds wrong with text.
func syntaxProblem(at place, text string, err error) Problems {
	parse, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return Problems{at.problem("", "%s", sentence(err.Error()))}
	}
	// The library's own line is one too many where it complains of a line's end, and
	// one too few at the end of the file: the last byte it complains of is right.
	last := parse.Position.Start + parse.Position.Len - 1
	last = max(0, min(last, len(text)-1))
	if strings.HasPrefix(text[last+1:], `"""`) {
		last = parse.Position.Start // of a text of several lines: it does not say which one
	}
	at.line = lineAt(text, last)
	reading := locate(at, text[:last+1])
	return Problems{at.problem(reading.where(), "%s", sentence(parse.Message))}
}

// sentence returns a message of the library, which may repeat what the file has, as
// our own are: one line that begins in lower case and has no full stop.
func sentence(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToLower(s[:1])+strings.TrimSuffix(s[1:], "."))
}

// fill gives every scalar in n the type and value that the library has decoded. It
// says whether both have read the same: keys, elements, and what is a string. Then
// the lines are right, as each key stands where the locator found it.
func fill(n *node, decoded any) bool {
	switch v := decoded.(type) {
	case map[string]any:
		if n.kind != tableKind || len(n.fields) != len(v) {
			return false
		}
		for key, field := range n.fields {
			if value, ok := v[key]; !ok || !fill(field, value) {
				return false
			}
		}
		return true
	case []map[string]any:
		return fillItems(n, v)
	case []any:
		return fillItems(n, v)
	}
	scalar := nodeOf(decoded, n.at)
	quoted := strings.HasPrefix(n.text, `"`) || strings.HasPrefix(n.text, "'")
	if n.kind != otherKind || quoted != (scalar.kind == stringKind) {
		return false
	}
	if !quoted {
		scalar.text = n.text // as written: 3.0 or 0x10
	}
	*n = *scalar
	return true
}

func fillItems[T any](n *node, decoded []T) bool {
	if n.kind != arrayKind || len(n.items) != len(decoded) {
		return false
	}
	for i, item := range n.items {
		if !fill(item, decoded[i]) {
			return false
		}
	}
	return true
}
