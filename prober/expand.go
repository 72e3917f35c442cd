package prober

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxCommand bounds a command after expansion, all words together, in bytes. Linux
	// accepts no longer word.
	maxCommand = 128 << 10
	// minMasked is the length of the shortest value that messages do not show. A
	// shorter one is no secret, and replacing it would garble the text.
	minMasked = 4
)

// words are a command whose $(NAME) are replaced from the container's environment as in
// Kubernetes: a reference to an unknown name stays as it is, $$ becomes $, so that
// $$(NAME) becomes $(NAME), and a value is not expanded again.
type words struct {
	shown  []string // as configured: for messages
	argv   []string // as run: may hold secrets
	masker *strings.Replacer
	// longestValue is the length of the longest value that masker replaces. That many
	// bytes more than are shown must be read: otherwise the output could end in half a
	// value, which masker does not find.
	longestValue int
}

// expandWords expands command with the environment env.
func expandWords(command, env []string) (words, error) {
	w := words{shown: slices.Clone(command)}
	x := expansion{env: env, remaining: maxCommand}
	for _, word := range command {
		expanded, ok := x.expand(word)
		if !ok {
			return words{}, cannotAsk(fmt.Sprintf("command has more than %d bytes with its variables", maxCommand))
		}
		w.argv = append(w.argv, expanded)
	}
	w.masker, w.longestValue = x.masker()
	return w, nil
}

// String returns the command as it was configured.
func (w words) String() string { return strings.Join(w.shown, " ") }

// maskValues returns text with $(NAME) in place of the values that the command was given.
func (w words) maskValues(text string) string {
	if w.masker == nil {
		return text
	}
	return w.masker.Replace(text)
}

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

// masker returns what replaces values by names, nil when there is nothing to mask.
func (x *expansion) masker() (mask *strings.Replacer, longest int) {
	// Longer values first: a longer value may contain a shorter one.
	slices.SortStableFunc(x.used, func(a, b string) int { return cmp.Compare(len(x.values[b]), len(x.values[a])) })
	var pairs []string
	for _, name := range x.used {
		value := x.values[name]
		if len(value) < minMasked {
			continue
		}
		longest = max(longest, len(value))
		pairs = append(pairs, value, "$("+name+")")
		// Engines quote a command that they could not run.
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
