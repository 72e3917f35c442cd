package importer

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// block is a block of a Nomad job, of HCL or of its JSON.
type block struct {
	kind   string
	label  string // the first one
	at     string // FILE:LINE, or FILE where lines are not known
	attrs  map[string]attr
	blocks []*block
	// assumed are the variables of the file that have their defaults; of a job only.
	assumed []string
}

// attr is an attribute of a block.
type attr struct {
	at     string
	value  any    // string, float64, bool, []string or map[string][]string; nil: the file alone does not tell
	source string // what is written in place of a value that is not known
}

// first returns the first block of a kind, one without anything if there is none.
func (b *block) first(kind string) *block {
	if all := b.all(kind); len(all) > 0 {
		return all[0]
	}
	return &block{kind: kind, at: b.at}
}

func (b *block) all(kind string) []*block {
	var all []*block
	for _, sub := range b.blocks {
		if sub.kind == kind {
			all = append(all, sub)
		}
	}
	return all
}

// over returns a block with the attributes of b, and with those of the other where b has none: so Nomad takes what the
// group says, or the job, where the task does not.
func (b *block) over(other *block) *block {
	merged := &block{kind: b.kind, at: b.at, attrs: maps.Clone(other.attrs)}
	if merged.attrs == nil {
		merged.attrs = map[string]attr{}
	}
	maps.Copy(merged.attrs, b.attrs)
	return merged
}

// lostAttrs tells of the attributes that nobody knows.
func (b *block) lostAttrs(t *table, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(b.attrs)) {
		if !slices.Contains(known, key) {
			t.lost("%s.%s (%s): healthd does not know this attribute", b.kind, key, b.where(key))
		}
	}
}

func (b *block) has(key string) bool { _, ok := b.attrs[key]; return ok }

// where says where an attribute is.
func (b *block) where(key string) string {
	if a, ok := b.attrs[key]; ok {
		return a.at
	}
	return b.at
}

// get returns the value of an attribute. One that is there and is not known, or no T, is lost in t.
func get[T any](b *block, t *table, key, kind string, of func(any) (T, bool)) (T, bool) {
	var none T
	a, there := b.attrs[key]
	if !there {
		return none, false
	}
	if a.value == nil {
		t.lost("%s.%s = %s (%s): the file alone does not tell: write the value", b.kind, key, a.source, a.at)
		return none, false
	}
	if v, ok := of(a.value); ok {
		return v, true
	}
	t.lost("%s.%s (%s): it is no %s", b.kind, key, a.at, kind)
	return none, false
}

func (b *block) text(t *table, key string) (string, bool) {
	return get(b, t, key, "text", func(v any) (string, bool) {
		switch v := v.(type) {
		case string:
			return v, true
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64), true
		case bool:
			return strconv.FormatBool(v), true
		}
		return "", false
	})
}

func (b *block) number(t *table, key string) (int, bool) {
	return get(b, t, key, "whole number", wholeNumber)
}

func wholeNumber(v any) (int, bool) {
	n, ok := v.(float64)
	if s, isText := v.(string); isText {
		parsed, err := strconv.ParseFloat(s, 64)
		n, ok = parsed, err == nil
	}
	if !ok || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}

func (b *block) boolean(t *table, key string) bool {
	is, _ := get(b, t, key, "boolean", func(v any) (bool, bool) {
		is, ok := v.(bool)
		if s, isText := v.(string); isText {
			return s == "true", s == "true" || s == "false"
		}
		return is, ok
	})
	return is
}

func (b *block) duration(t *table, key string) (time.Duration, bool) {
	return get(b, t, key, "duration", func(v any) (time.Duration, bool) {
		s, _ := v.(string)
		d, err := time.ParseDuration(s)
		return d, err == nil
	})
}

func (b *block) words(t *table, key string) ([]string, bool) {
	return get(b, t, key, "list of words", func(v any) ([]string, bool) {
		words, ok := v.([]string)
		return words, ok
	})
}
