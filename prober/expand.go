package prober

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxCommand bounds a command after expansion, all words together. Linux takes
	// no longer word than this.
	maxCommand = 128 << 10
	// minMasked is the shortest value that is kept out of messages. To replace
	// shorter ones would spoil the text and hide nothing.
	minMasked = 4
)

// words are a command with $(NAME) replaced by the container's environment, as
// Kubernetes does it: a reference to an unknown name stays as it is, $$ is $, so
// that $$(NAME) is $(NAME), and what came out of a value is not looked at again.
type words struct {
	shown []string // as configured: for messages
	argv  []string // as run: may hold secrets
	mask  *strings.Replacer
	// longest is the length of the longest value that mask keeps out of messages:
	// so much more than is shown must be read, or half a value could be.
	longest int
}

// expandWords returns command with the environment env put in.
func expandWords(command, env []string) (words, error) {
	w := words{shown: slices.Clone(command)}
	x := expansion{env: env, left: maxCommand}
	for _, word := range command {
		expanded, ok := x.expand(word)
		if !ok {
			return words{}, unasked(fmt.Sprintf("command has more than %d bytes with its variables", maxCommand))
		}
		w.argv = append(w.argv, expanded)
	}
	w.mask, w.longest = x.mask()
	return w, nil
}

// String returns the command as it was configured.
func (w words) String() string { return strings.Join(w.shown, " ") }

// hide returns text with the names of variables in place of the values that the
// command was given.
func (w words) hide(text string) string {
	if w.mask == nil {
		return text
	}
	return w.mask.Replace(text)
}

// expansion expands the words of one command.
type expansion struct {
	env    []string
	values map[string]string // env by name, once a word needs it
	used   []string          // names that were replaced
	left   int               // bytes that the other words may have
}

// expand returns false when the command has become too long.
func (x *expansion) expand(word string) (string, bool) {
	if !strings.Contains(word, "$") {
		x.left -= len(word)
		return word, x.left >= 0
	}
	var b strings.Builder
	lastClose := strings.LastIndexByte(word, ')')
	for at := 0; at < len(word) && b.Len() <= x.left; {
		n := strings.IndexByte(word[at:], '$')
		if n < 0 {
			n = len(word) - at
		}
		b.WriteString(word[at : at+n])
		at += n
		text, length := x.reference(word[at:], at < lastClose)
		b.WriteString(text)
		at += length
	}
	x.left -= b.Len()
	return b.String(), x.left >= 0
}

// reference returns what takes the place of the beginning of s, which is empty or
// has a $ there, and the length of that beginning.
func (x *expansion) reference(s string, closes bool) (text string, length int) {
	switch {
	case strings.HasPrefix(s, "$$"):
		return "$", 2
	case strings.HasPrefix(s, "$(") && closes:
		end := strings.IndexByte(s, ')')
		if value, ok := x.lookup(s[2:end]); ok {
			return value, end + 1
		}
		return s[:end+1], end + 1
	}
	n := min(1, len(s))
	return s[:n], n
}

func (x *expansion) lookup(name string) (string, bool) {
	if x.values == nil {
		x.values = make(map[string]string, len(x.env))
		for _, e := range x.env {
			if name, value, ok := strings.Cut(e, "="); ok {
				x.values[name] = value
			}
		}
	}
	value, ok := x.values[name]
	if ok && !slices.Contains(x.used, name) {
		x.used = append(x.used, name)
	}
	return value, ok
}

// mask returns what puts the names back, nil where there is nothing to hide.
func (x *expansion) mask() (mask *strings.Replacer, longest int) {
	// A longer value may have a shorter one in it.
	slices.SortStableFunc(x.used, func(a, b string) int { return cmp.Compare(len(x.values[b]), len(x.values[a])) })
	var pairs []string
	for _, name := range x.used {
		value := x.values[name]
		if len(value) < minMasked {
			continue
		}
		longest = max(longest, len(value))
		pairs = append(pairs, value, "$("+name+")")
		// Engines quote what they could not run.
		if quoted := strconv.Quote(value); quoted != `"`+value+`"` {
			longest = max(longest, len(quoted))
			pairs = append(pairs, quoted[1:len(quoted)-1], "$("+name+")")
		}
	}
	if pairs == nil {
		return nil, 0
	}
	return strings.NewReplacer(pairs...), longest
}
