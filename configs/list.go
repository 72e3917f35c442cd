package configs

import (
	"strconv"
	"strings"
)

// list reads an array. In a label it is JSON, or what split makes of the text.
func (t *table) list(key string, split func(string) ([]string, error)) (*node, bool) {
	n := t.take(key)
	if n.kind == arrayKind {
		return n, true
	}
	if n.kind != labelKind {
		t.wrong(n, t.at(key), "must be an array, is %s", n.describe())
		return nil, false
	}
	if split == nil || strings.HasPrefix(strings.TrimSpace(n.text), "[") {
		list, err := parseJSON(n)
		if err != nil {
			t.wrong(n, t.at(key), "must be a JSON array: %s", err)
		}
		return list, err == nil
	}
	words, err := split(n.text)
	if err != nil {
		t.wrong(n, t.at(key), "%s", err)
		return nil, false
	}
	list := &node{kind: arrayKind, at: n.at}
	for _, word := range words {
		list.items = append(list.items, &node{kind: stringKind, at: n.at, text: word})
	}
	return list, true
}

// words reads a list of strings with which check finds nothing wrong. In a label it
// is JSON, or words as a shell has them. The word for a wrong string is empty.
func (t *table) words(key string, check func(string) string) (*node, []string, bool) {
	n, ok := t.list(key, shellWords)
	if !ok {
		return nil, nil, false
	}
	words := make([]string, len(n.items))
	for i, item := range n.items {
		word, right := t.checked(item, t.at(key)+index(i), check)
		words[i], ok = word, ok && right
	}
	return n, words, ok
}

// distinct reads a list of words that must all mean something else: two mean the same
// when same returns one text for both. Messages call the words noun.
func (t *table) distinct(key, noun string, most int, check, same func(string) string) []string {
	if t.take(key) == nil {
		return nil
	}
	n, words, ok := t.words(key, check)
	if len(words) > most {
		t.wrong(n, t.at(key), "must have at most %d %s, has %d", most, noun, len(words))
		return nil
	}
	seen := map[string]string{}
	for i, word := range words {
		if word == "" {
			continue // which is wrong already
		}
		first, twice := seen[same(word)]
		switch {
		case !twice:
			seen[same(word)] = word
		case first == word:
			t.wrong(n.items[i], t.at(key)+index(i), "%s is in the list already", quote(word))
		default:
			t.wrong(n.items[i], t.at(key)+index(i), "%s is in the list already, as %s", quote(word), quote(first))
		}
	}
	if ok {
		t.value(key, showWords(words), n)
	}
	return words
}

func sameText(s string) string { return s }

// index returns what follows a list's path to make that of its element i.
func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// showWords returns a list of strings as TOML would write it.
func showWords(words []string) string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = quoteTOML(word)
	}
	return showList(shown)
}

// showList returns values that are TOML already as a list.
func showList(shown []string) string { return "[" + strings.Join(shown, ", ") + "]" }
