package configs

import (
	"regexp"
	"strings"
)

// matchKey is the key by which a spec chooses containers, "name" for one that chooses none.
func (s *fileSpec) matchKey() string {
	for _, key := range []string{"match", "match_name", "match_image"} {
		if s.own.fields[key] != nil {
			return key
		}
	}
	return "name"
}

// neverChosen warns of an earlier spec that takes every container that s matches.
func (s *fileSpec) neverChosen(before []*fileSpec) string {
	for _, other := range before {
		if other.matcher.covers(&s.matcher) {
			return "the spec at " + other.own.at.String() + " comes first and also matches all of these containers: only the label " +
				specLabel + "=" + s.name + " selects this one"
		}
	}
	return ""
}

// regular is what only regular expressions have: in a pattern it stands for itself.
var regular = regexp.MustCompile(`^\^|\$$|\.[*+]|\\[dwsbDWS.]|\[[^]]+\]|\([^)]*\)|[^|]\|[^|]`)

// warnMatch warns of what matches other containers than was probably meant.
func (s *fileSpec) warnMatch(before []*fileSpec) []warning {
	found := told(
		warning{s.matchKey(), s.neverChosen(before)},
		warning{"match_name", warnPattern(s.matcher.name)},
		warning{"match_image", warnPattern(s.matcher.image)},
	)
	if len(s.matcher.labels) == 0 && !s.matcher.none() && strings.Trim(s.matcher.name+s.matcher.image, "*") == "" {
		found = append(found, warning{s.matchKey(), "matches every container of the engine, whoever's it is"})
	}
	for _, a := range s.matcher.labels {
		for _, p := range a {
			found = append(found, told(warning{"match", warnLabel(p.label)}, warning{"match", warnPattern(p.glob)})...)
		}
	}
	return found
}

// warnPattern warns of a regular expression.
func warnPattern(pattern string) string {
	if !regular.MatchString(pattern) {
		return ""
	}
	return quote(pattern) + " looks like a regular expression: here only * and ? stand for other characters, and the pattern fits the whole text"
}

// warnLabel warns of a label that no container has, or that is meant to be something else.
func warnLabel(label string) string {
	switch {
	case strings.ContainsAny(label, "*?"):
		return "no container has a label " + quote(label) + ": * and ? stand for other characters in values only"
	case label == "name" || label == "container_name":
		return "means the label " + quote(label) + "; for the container's name write match_name"
	case label == "image":
		return "means the label " + quote(label) + "; for the container's image write match_image"
	case strings.HasPrefix(label, labelPrefix):
		return "a label that begins with " + labelPrefix + " sets something by itself: match another one"
	}
	return ""
}
