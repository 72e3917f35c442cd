package prober

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCommand bounds a command after expansion, all words together, in bytes. Linux
// accepts no longer word.
const maxCommand = 128 << 10

// words are a command whose $(NAME) are replaced from the container's environment as in
// Kubernetes: a reference to an unknown name stays as it is, $$ becomes $, so that
// $$(NAME) becomes $(NAME), and a value is not expanded again.
type words struct {
	shown []string // as configured: for messages
	argv  []string // as run: may hold secrets
	mask  Mask     // of the values that the command was given
}

// expandWords expands command with the environment of t.
func expandWords(command []string, t Target) (words, error) {
	w := words{shown: slices.Clone(command)}
	x := expansion{env: t.Env, remaining: maxCommand}
	for _, word := range command {
		expanded, ok := x.expand(word)
		if !ok {
			return words{}, cannotAsk(fmt.Sprintf("command has more than %d bytes with its variables", maxCommand))
		}
		w.argv = append(w.argv, expanded)
	}
	if t.EnvClipped && x.values != nil {
		return words{}, cannotAsk("command has variables, and the container's environment is larger than healthd reads")
	}
	w.mask = x.mask()
	return w, nil
}

// String returns the command as it was configured.
func (w words) String() string { return strings.Join(w.shown, " ") }

// hide returns a text as results show it, with $(NAME) in place of the values that the command was given.
func (w words) hide(text string) string { return w.mask.Text(text, MaxOutput) }

// expansion expands the words of one command.
type expansion struct {
	env       []string
	values    map[string]string // env by name, once a word needs it
	used      []string          // names that were replaced
	remaining int               // bytes that the other words may have
}

// expand returns false when the command has become too long.
func (x *expansion) expand(word string) (string, bool) {
	if !strings.Contains(word, "$") {
		x.remaining -= len(word)
		return word, x.remaining >= 0
	}
	var b strings.Builder
	lastClose := strings.LastIndexByte(word, ')')
	for at := 0; at < len(word) && b.Len() <= x.remaining; {
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
	x.remaining -= b.Len()
	return b.String(), x.remaining >= 0
}

// reference expands the reference at the beginning of s, which is empty or begins with
// $, and returns its length in s. closes says that a ) follows.
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

// mask returns what hides the values that were used.
func (x *expansion) mask() Mask {
	names := map[string]string{}
	for _, name := range x.used {
		value := x.values[name]
		if _, named := names[value]; named || len(value) < minMasked {
			continue
		}
		names[value] = name
		// Engines quote a command that they could not run.
		if quoted := strconv.Quote(value); quoted != `"`+value+`"` {
			names[quoted[1:len(quoted)-1]] = name
		}
	}
	return NewMask(names, false)
}
