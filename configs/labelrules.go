package configs

import (
	"slices"
	"strings"
	"time"
)

// What labels may set unless a file says otherwise.
const (
	defaultMaxTimeout = time.Minute
	defaultMaxWait    = 10 * time.Minute
	defaultMinBackoff = time.Second

	maxPatterns = 100
)

// labelRules say what containers may set about themselves: labels are written by whoever may
// start containers, and what one of them sets must not harm the others.
type labelRules struct {
	allow      []string // paths, as patterns
	services   []string // what publish.service may be
	backends   []string // what publish.haproxy.backend may be
	groups     []string // what group.name may be besides groups of the container's own Compose project
	maxTimeout time.Duration
	maxWait    time.Duration
	minBackoff time.Duration
}

func readLabelRules(t *table) labelRules {
	patterns := func(key string, otherwise ...string) []string {
		if !t.has(key) {
			t.take(key)
			return otherwise
		}
		return t.distinct(key, "patterns", maxPatterns, checkNotEmpty, sameText)
	}
	l := labelRules{
		allow: patterns("allow", "*"), services: patterns("services", "*"), backends: patterns("backends", "*"), groups: patterns("groups"),
		maxTimeout: t.duration("max_timeout", defaultMaxTimeout, durations(time.Second)),
		maxWait:    t.duration("max_wait", defaultMaxWait, durations(time.Second)),
		minBackoff: t.duration("min_backoff", defaultMinBackoff, durations(time.Millisecond)),
	}
	t.done()
	return l
}

func anyGlob(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, s) })
}

// bounds narrows those of a key's duration to what a label may set, and returns which of [labels]
// it follows from. A nil l narrows nothing.
func (l *labelRules) bounds(key string, b span[time.Duration]) (narrowed span[time.Duration], rule string) {
	if l == nil {
		return b, ""
	}
	narrowed = b
	switch key {
	case "timeout":
		narrowed.most, rule = min(b.most, l.maxTimeout), "max_timeout"
	case "drain", "termination_grace_period", "duration":
		narrowed.most, rule = min(b.most, l.maxWait), "max_wait"
	case "initial", "max", "reset_after":
		narrowed.least, rule = max(b.least, l.minBackoff), "min_backoff"
	}
	if narrowed == b {
		return b, ""
	}
	return narrowed, rule
}

// checkNames reports a label with the name of something that its container must not join.
func (l *labelRules) checkNames(r *reader, spec *node, project string) {
	for _, rule := range []struct {
		path, key string
		check     func(string) string // what it fails is wrong already
		may       func(name, project string) bool
	}{
		{"publish.service", "services", checkService, l.mayPublish},
		{backendPath, "backends", checkBackend, func(name, _ string) bool { return anyGlob(l.backends, name) }},
		{"group.name", "groups", checkGroup, l.mayJoin},
	} {
		n := spec.below(rule.path)
		if n == nil || !n.at.fromLabel() || !n.textual() || rule.check(n.text) != "" || rule.may(n.text, project) {
			continue
		}
		own := ""
		if !ofProject(n.text, project) && (rule.key == "groups" || strings.Contains(n.text, "/")) {
			own = " other than PROJECT/NAME of its own Compose project"
		}
		r.wrong(n, rule.path, "%s cannot be set by a label%s: [labels] %s does not have it", quote(n.text), own, rule.key)
	}
}

func (l *labelRules) mayJoin(group, project string) bool {
	return anyGlob(l.groups, group) || ofProject(group, project)
}

// mayPublish says whether a label may name the service. What a file means for names alone does not
// let one project publish under another's: that takes a pattern with a slash.
func (l *labelRules) mayPublish(service, project string) bool {
	name := service
	switch {
	case ofProject(service, project):
		name = strings.TrimPrefix(service, project+"/")
	case strings.Contains(service, "/"):
		return slices.ContainsFunc(l.services, func(p string) bool { return strings.Contains(p, "/") && glob(p, service) })
	}
	return anyGlob(l.services, name) || project != "" && anyGlob(l.services, project+"/"+name)
}

// ofProject says whether a name is PROJECT/NAME of that project.
func ofProject(name, project string) bool {
	return project != "" && strings.HasPrefix(name, project+"/")
}
