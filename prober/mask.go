package prober

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

const (
	// minMasked is the length of the shortest value that is hidden. A shorter one is no
	// secret, and replacing it would garble the text.
	minMasked = 4
	// longestMasked and maxMasked bound the values. Beyond, no text is shown at all.
	longestMasked = 16 << 10 // bytes
	maxMasked     = 500      // values
	// maxMaskName bounds the names that stand for them: a text has many.
	maxMaskName = 64 // bytes
)

// Mask hides values of a container's environment in texts: it puts $(NAME) in their place. The container
// chooses names, values and texts.
type Mask struct {
	// Longest is the length of the longest value, in bytes. So many bytes more than are shown must be read:
	// otherwise a text could end in half a value.
	Longest  int
	replacer *strings.Replacer // nil: there is nothing to hide
	tooLarge bool
}

// NewMask returns the mask for values, of which names has the name. clipped says that it lacks some.
func NewMask(names map[string]string, clipped bool) Mask {
	var m Mask
	var values []string
	for value := range names {
		if len(value) >= minMasked {
			m.Longest = max(m.Longest, len(value))
			values = append(values, value)
		}
	}
	if m.tooLarge = clipped || len(values) > maxMasked || m.Longest > longestMasked; m.tooLarge || values == nil {
		m.Longest = 0
		return m
	}
	// Longer values first: a longer value may contain a shorter one.
	slices.SortFunc(values, func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs []string
	for _, value := range values {
		pairs = append(pairs, value, shownName(names[value]))
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

func shownName(name string) string {
	if len(name) > maxMaskName {
		name = strings.ToValidUTF8(name[:maxMaskName], "") + "…"
	}
	return "$(" + name + ")"
}

// Text returns the begin of s with its values hidden, at most so many bytes.
func (m Mask) Text(s string, most int) string {
	switch {
	case m.tooLarge && s != "":
		return clip("(left out: the container's environment is too large to hide its values)", most)
	case m.replacer == nil:
		return clip(s, most)
	}
	out := boundedText{most: most}
	_, _ = m.replacer.WriteString(&out, s)
	return out.String()
}

// CutText is Text for an s that was cut at its end, where half a value may be left.
func (m Mask) CutText(s string, most int) string {
	text := m.Text(s, most+m.Longest)
	return text[:max(0, len(text)-m.Longest)]
}

func clip(s string, most int) string { return s[:min(len(s), max(most, 0))] }

var errFull = errors.New("full")

// boundedText takes the begin of a text that is made piece by piece, so that no more than that is ever made.
type boundedText struct {
	strings.Builder
	most int
}

// WriteString implements io.StringWriter.
func (t *boundedText) WriteString(s string) (int, error) {
	part := clip(s, t.most-t.Len())
	t.Builder.WriteString(part)
	if len(part) < len(s) {
		return len(part), errFull
	}
	return len(part), nil
}

// Write implements io.Writer.
func (t *boundedText) Write(p []byte) (int, error) { return t.WriteString(string(p)) }
