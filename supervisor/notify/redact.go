package notify

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var anyURL = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*)://[^\s"'<>]+`)

// hidden stands for what is not shown.
const hidden = "[hidden]"

// redact takes all URLs, and all parts of the secret one, out of a text that others wrote. Parts of less than
// four characters are no secrets, and would make the text unreadable.
func redact(text, secret string) string {
	const least = 4
	text = anyURL.ReplaceAllString(text, "${1}://"+hidden)
	parts := strings.FieldsFunc(secret, func(r rune) bool { return strings.ContainsRune("/?&=:@,;#", r) })
	for _, part := range slices.Clone(parts) {
		if plain, err := url.QueryUnescape(part); err == nil {
			parts = append(parts, plain)
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	scheme, _, _ := strings.Cut(secret, ":")
	for _, part := range parts {
		if len(part) >= least && part != scheme {
			text = strings.ReplaceAll(text, part, hidden)
		}
	}
	return text
}
