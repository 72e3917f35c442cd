package importer

import (
	"fmt"
	"strings"
	"time"
)

// inline is an inline table of TOML in the making.
type inline []string

func (i *inline) set(key, value string) { *i = append(*i, key+" = "+value) }

// text sets a string, unless it is empty, which stands for the default.
func (i *inline) text(key, value string) {
	if value != "" {
		i.set(key, quote(value))
	}
}

func (i inline) String() string {
	if len(i) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(i, ", ") + " }"
}

// port is a number, or a name as TOML has it below [spec.ports].
type port struct {
	number int
	name   string
}

func (p port) String() string {
	if p.name != "" {
		return quote(p.name)
	}
	return fmt.Sprint(p.number)
}

// header is one of a request.
type header struct{ name, value string }

func headersOf(all []header) string {
	var items []string
	for _, h := range all {
		item := inline{}
		item.set("name", quote(h.name))
		item.set("value", quote(h.value))
		items = append(items, item.String())
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// execOf is a handler that runs a command as healthd expands it.
func execOf(command []string) inline {
	i := inline{}
	i.set("command", quoteAll(command))
	return i
}

// literally escapes what healthd would replace in a command, as others do not: $(NAME) and $$.
func literally(command []string) []string {
	escaped := make([]string, len(command))
	for i, word := range command {
		if escaped[i] = word; strings.Contains(word, "$(") || strings.Contains(word, "$$") {
			escaped[i] = strings.ReplaceAll(word, "$", "$$")
		}
	}
	return escaped
}

// timesOver returns how many periods a time has, at least 1.
func timesOver(whole, period time.Duration) int {
	if whole <= 0 || period <= 0 {
		return 1
	}
	return int((whole-1)/period) + 1
}
