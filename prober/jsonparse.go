package prober

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxJSONTest bounds a test, in bytes.
	maxJSONTest = 4 << 10
	// maxIndexDigits bounds an index of a path.
	maxIndexDigits = 6
)

// ParseJSONTest parses a test, see JSONTest. An error says what is wrong, and at which
// character.
func ParseJSONTest(text string) (*JSONTest, error) {
	if len(text) > maxJSONTest {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), maxJSONTest)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("must be UTF-8 text")
	}
	s := &scanner{text: text}
	t := &JSONTest{}
	for {
		c, err := s.comparison()
		if err != nil {
			return nil, err
		}
		t.comparisons = append(t.comparisons, c)
		switch {
		case s.end():
			return t, nil
		case !s.take("&&"):
			return nil, s.want("==, !=, <, <=, >, >=, && or the end")
		}
	}
}

// scanner reads a test from left to right.
type scanner struct {
	text string
	at   int
}

func (s *scanner) rest() string { return s.text[s.at:] }

func (s *scanner) skipBlanks() {
	s.at += len(s.rest()) - len(strings.TrimLeft(s.rest(), " \t\r\n"))
}

func (s *scanner) end() bool {
	s.skipBlanks()
	return s.rest() == ""
}

// take steps over token, if it comes next.
func (s *scanner) take(token string) bool {
	s.skipBlanks()
	if !strings.HasPrefix(s.rest(), token) {
		return false
	}
	s.at += len(token)
	return true
}

// want returns the error that something else should stand here.
func (s *scanner) want(what string) error {
	at := 1 + utf8.RuneCountInString(s.text[:s.at])
	if s.rest() == "" {
		return fmt.Errorf("want %s at the end (character %d)", what, at)
	}
	r, _ := utf8.DecodeRuneInString(s.rest())
	return fmt.Errorf("want %s at character %d, which is %s", what, at, strconv.QuoteRune(r))
}

func (s *scanner) comparison() (comparison, error) {
	s.skipBlanks()
	begin := s.at
	var c comparison
	var err error
	if c.path, err = s.path(); err != nil {
		return c, err
	}
	end := s.at
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} { // the longer ones first
		if s.take(op) {
			c.op = op
			break
		}
	}
	if c.op != "" {
		if c.value, err = s.value(c.op); err != nil {
			return c, err
		}
		end = s.at
	}
	c.text = s.text[begin:end]
	return c, nil
}

func (s *scanner) path() ([]pathPart, error) {
	var path []pathPart
	for {
		part, ok, err := s.pathPart(len(path) == 0)
		switch {
		case err != nil:
			return nil, err
		case ok:
			path = append(path, part)
		case len(path) == 0:
			return nil, s.want("a path such as status or checks[0].ok")
		default:
			return path, nil
		}
	}
}

// pathPart reads one part of a path, if there is another one.
func (s *scanner) pathPart(first bool) (part pathPart, ok bool, err error) {
	switch {
	case strings.HasPrefix(s.rest(), "["):
		s.at++
		return s.bracket()
	case !first && !strings.HasPrefix(s.rest(), "."):
		return part, false, nil
	case !first:
		s.at++
	}
	if s.quoteNext() {
		part.key, err = s.quoted()
		return part, err == nil, err
	}
	n := strings.IndexFunc(s.rest(), func(r rune) bool { return !isPathRune(r) })
	if n < 0 {
		n = len(s.rest())
	}
	part.key = s.rest()[:n]
	if n == 0 && !first {
		return part, false, s.want("a key")
	}
	s.at += n
	return part, n > 0, nil
}

// bracket reads what follows a [, with the ].
func (s *scanner) bracket() (part pathPart, ok bool, err error) {
	s.skipBlanks()
	if s.quoteNext() {
		part.key, err = s.quoted()
	} else {
		digits := len(s.rest()) - len(strings.TrimLeft(s.rest(), "0123456789"))
		if digits == 0 || digits > maxIndexDigits {
			return part, false, s.want(fmt.Sprintf("an index of at most %d digits, or a key in quotes", maxIndexDigits))
		}
		part.isIndex = true
		part.index, err = strconv.Atoi(s.rest()[:digits])
		s.at += digits
	}
	if err == nil && !s.take("]") {
		err = s.want("]")
	}
	return part, err == nil, err
}

func isPathRune(r rune) bool {
	return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (s *scanner) quoteNext() bool {
	return strings.HasPrefix(s.rest(), "'") || strings.HasPrefix(s.rest(), `"`)
}

// quoted reads a text in quotes. It ends with the next such quote: nothing is escaped.
func (s *scanner) quoted() (string, error) {
	quote := s.rest()[:1]
	text, _, closed := strings.Cut(s.rest()[1:], quote)
	if !closed {
		at := 1 + utf8.RuneCountInString(s.text[:s.at])
		return "", fmt.Errorf("the quote at character %d is never closed", at)
	}
	s.at += len(text) + 2
	return text, nil
}

// value reads what a path is compared with.
func (s *scanner) value(op string) (any, error) {
	s.skipBlanks()
	ordered := op != "==" && op != "!="
	if s.quoteNext() && !ordered {
		return s.quoted()
	}
	n := strings.IndexAny(s.rest(), " \t\r\n&")
	if n < 0 {
		n = len(s.rest())
	}
	word := s.rest()[:n]
	constants := map[string]any{"true": true, "false": false, "null": nil}
	value, known := constants[word]
	switch {
	case isNumber(word):
		s.at += n
		return json.Number(word), nil
	case known && !ordered:
		s.at += n
		return value, nil
	case ordered:
		return nil, s.want("a number after " + op)
	}
	return nil, s.want(`'text', "text", a number, true, false or null`)
}

// isNumber says whether s is a number as JSON writes it, which a float64 can hold.
func isNumber(s string) bool {
	var n json.Number
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || json.Unmarshal([]byte(s), &n) != nil {
		return false
	}
	_, err := n.Float64()
	return err == nil
}
