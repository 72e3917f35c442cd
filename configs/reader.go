package configs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"healthd/supervisor/core"
)

// reader turns nodes into settings. It collects what is wrong, and every value
// with its origin. One line of a reading function is all there is to say about
// a key: what it is called, its type, its default and its bounds.
type reader struct {
	prefix   string // of the paths of problems in files: "spec[web]."
	problems Problems
	values   []core.Value
	rules    *labelRules       // of values from labels; nil in files
	partial  bool              // a layer, which others complete
	inSpec   bool              // it reads a [[spec]], not the settings of the daemon
	asked    func(path string) // hears of each key that there is; nil: nobody wants to
}

// table reads one table. Each of its methods that reads a key also makes the key
// known; done finds those that are not.
type table struct {
	*reader
	n      *node // nil when the table is absent: everything has its default
	path   string
	known  []string
	broken bool // the value is not a table, which is reported already: its keys are not missing
}

// span is the bounds of a number or a duration, both included.
type span[T int | time.Duration] struct{ least, most T }

// durations returns bounds with the upper one of all durations, which only catches
// slips.
func durations(least time.Duration) span[time.Duration] {
	return span[time.Duration]{least, 365 * 24 * time.Hour}
}

func (r *reader) root(n *node) *table { return &table{reader: r, n: n} }

// sub returns the table below key, with n nil when key is not set. A value of the
// wrong type is reported and then read as an empty table.
func (t *table) sub(key string) *table {
	n := t.take(key)
	broken := n != nil && n.kind != tableKind
	if broken {
		t.wrongTable(n, t.at(key))
		n = newTable(n.at)
	}
	return &table{reader: t.reader, n: n, path: t.at(key), broken: broken}
}

func (r *reader) wrongTable(n *node, path string) {
	if n.at.fromLabel() && n.kind == labelKind {
		r.wrong(n, path, "takes no value, only keys below it, is %s", n.describe())
		return
	}
	r.wrong(n, path, "must be a table, is %s%s", n.describe(), tableInstead(n, path))
}

// at returns the path of a key of the table.
func (t *table) at(key string) string {
	if t.path == "" {
		return showKey(key)
	}
	return t.path + "." + showKey(key)
}

func (t *table) has(key string) bool { return t.n != nil && t.n.fields[key] != nil }

func (t *table) take(key string) *node {
	t.known = append(t.known, key)
	if t.asked != nil {
		t.asked(t.at(key))
	}
	if t.n == nil {
		return nil
	}
	return t.n.fields[key]
}

// wrong adds a problem with the value n at path.
func (r *reader) wrong(n *node, path, format string, args ...any) {
	if !n.at.fromLabel() {
		path = strings.TrimSuffix(r.prefix+path, ".")
	}
	r.problems = append(r.problems, n.at.problem(path, format, args...))
}

// value records a setting; n is nil when it is a default.
func (t *table) value(key, value string, n *node) {
	origin := originDefault
	if n != nil {
		origin = n.at.String()
	}
	t.values = append(t.values, core.Value{Path: t.at(key), Value: value, Origin: origin})
}

// change replaces a recorded setting, and its origin unless that is empty.
func (r *reader) change(path, value, origin string) {
	for i := range r.values {
		if v := &r.values[i]; v.Path == path {
			v.Value, v.Origin = value, cmp.Or(origin, v.Origin)
		}
	}
}

// done reports the keys that nothing asked for.
func (t *table) done() {
	if t.n == nil {
		return
	}
	for _, key := range t.n.keys() {
		if !slices.Contains(t.known, key) {
			t.wrong(t.n.fields[key], t.at(key), "unknown key%s", t.unknownKey(key))
		}
	}
}

// fileOnly makes keys known that other code reads. Labels must not set them.
func (t *table) fileOnly(keys ...string) {
	for _, key := range keys {
		if n := t.take(key); n != nil && labelIn(n) {
			t.wrong(&node{at: place{label: key}}, t.at(key), "cannot be set by a label")
		}
	}
}

// labelIn says whether a label set n or something in it.
func labelIn(n *node) bool {
	if n.at.fromLabel() {
		return true
	}
	for _, field := range n.fields {
		if labelIn(field) {
			return true
		}
	}
	return false
}

// endless is a valid duration that is too long for a time.Duration.
var endless = regexp.MustCompile(`^\d{1,30}(h|m|s|ms|us|µs|ns)$`)

func (t *table) duration(key string, otherwise time.Duration, bounds span[time.Duration]) time.Duration {
	n := t.take(key)
	if n == nil {
		t.value(key, showDuration(otherwise), nil)
		return otherwise
	}
	rule := ""
	if n.at.fromLabel() {
		bounds, rule = t.rules.bounds(key, bounds)
	}
	suffix := ""
	if rule != "" {
		suffix = " in a label ([labels] " + rule + ")"
	}
	d, err := time.ParseDuration(n.text)
	switch {
	case n.textual() && err != nil && endless.MatchString(n.text):
		t.wrong(n, t.at(key), "must be at most %s%s, is %s", bareDuration(bounds.most), suffix, quote(n.text))
	case !n.textual() || err != nil:
		t.wrong(n, t.at(key), `must be a duration such as "10s", is %s`, n.describe())
	case d < bounds.least:
		t.wrong(n, t.at(key), "must be at least %s%s, is %s", bareDuration(bounds.least), suffix, quote(n.text))
	case d > bounds.most:
		t.wrong(n, t.at(key), "must be at most %s%s, is %s", bareDuration(bounds.most), suffix, quote(n.text))
	default:
		t.value(key, showDuration(d), n)
		return d
	}
	return otherwise
}

// boolean reads true or false.
func (t *table) boolean(key string, otherwise bool) bool {
	n := t.take(key)
	if n == nil {
		return otherwise
	}
	if n.kind != boolKind && (n.kind != labelKind || n.text != "true" && n.text != "false") {
		t.wrong(n, t.at(key), "must be true or false, is %s", n.describe())
		return otherwise
	}
	t.value(key, n.text, n)
	return n.text == "true"
}

func (t *table) integer(key string, otherwise int, bounds span[int]) int {
	n := t.take(key)
	if n == nil {
		t.value(key, strconv.Itoa(otherwise), nil)
		return otherwise
	}
	number, ok := t.number(n, t.at(key), bounds)
	if !ok {
		return otherwise
	}
	t.value(key, strconv.Itoa(number), n)
	return number
}

func (r *reader) number(n *node, path string, bounds span[int]) (int, bool) {
	number, ok := n.integer()
	if !ok {
		r.wrong(n, path, "must be an integer, is %s", n.describe())
		return 0, false
	}
	if number < int64(bounds.least) || number > int64(bounds.most) {
		r.wrong(n, path, "must be %s, is %d", bounds, number)
		return 0, false
	}
	return int(number), true
}

// String returns "1 to 65535", or "1" when there is no choice.
func (s span[T]) String() string {
	if s.least == s.most {
		return fmt.Sprint(s.least)
	}
	return fmt.Sprintf("%v to %v", s.least, s.most)
}

func (n *node) integer() (int64, bool) {
	if n.kind == labelKind {
		number, err := strconv.ParseInt(n.text, 10, 64)
		return number, err == nil
	}
	return n.number, n.kind == integerKind
}

// text reads a string. Where it is wrong, check returns what it must be; check may be
// nil.
func (t *table) text(key, otherwise string, check func(string) string) string {
	n := t.take(key)
	if n == nil {
		t.value(key, quoteTOML(otherwise), nil)
		return otherwise
	}
	s, ok := t.checked(n, t.at(key), check)
	if !ok {
		return otherwise
	}
	t.value(key, quoteTOML(s), n)
	return s
}

func (r *reader) checked(n *node, path string, check func(string) string) (string, bool) {
	if !n.textual() {
		r.wrong(n, path, "must be a string, is %s", n.describe())
		return "", false
	}
	if check == nil {
		return n.text, true
	}
	if wrong := check(n.text); wrong != "" {
		r.wrong(n, path, "%s, is %s", wrong, quote(n.text))
		return "", false
	}
	return n.text, true
}

// choice reads one of words. The first is the default.
func (t *table) choice(key string, words ...string) string {
	return t.word(key, words[0], words...)
}

// required reads a word that must be set.
func (t *table) required(key string, words ...string) string {
	if t.missing(key) {
		return ""
	}
	return t.word(key, "", words...)
}

// word reads one of words.
func (t *table) word(key, otherwise string, words ...string) string {
	if n := t.take(key); n != nil && n.textual() && !slices.Contains(words, n.text) {
		t.wrong(n, t.at(key), "must be %s, is %s%s", alternatives(words), quote(n.text), insteadOf(n.text, words))
		return otherwise
	}
	return t.text(key, otherwise, nil)
}

// showDuration returns d as TOML would write it.
func showDuration(d time.Duration) string { return `"` + bareDuration(d) + `"` }

// bareDuration returns 5m0s as 5m and 8760h0m0s as 8760h.
func bareDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quoteTOML returns s as a TOML string.
func quoteTOML(s string) string {
	escaped := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == '\\' }
	if strings.ContainsFunc(s, escaped) {
		return strconv.Quote(s)
	}
	return `"` + s + `"`
}
