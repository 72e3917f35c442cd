package configs

import (
	"strconv"
	"strings"

	"healthd/supervisor/core"
)

// The labels that Docker Compose gives its containers.
const (
	composeProject = "com.docker.compose.project"
	composeService = "com.docker.compose.service"
	composeOneOff  = "com.docker.compose.oneoff"
)

// probeKeys are the keys of a spec that make a container supervised when a label
// has them.
func probeKeys() []string {
	var keys []string
	for which := range core.ProbeType(core.NumProbes) {
		keys = append(keys, which.String())
	}
	return keys
}

// Resolve returns how the container called name with these labels is to be
// supervised. It returns nil and no error when the container is to be left
// alone, and an error when a label is wrong: the container is then Invalid. It
// may be called from any goroutine.
func (c *Config) Resolve(name string, labels map[string]string) (*core.Spec, error) {
	enabled, problems := readEnable(labels)
	if !enabled {
		return nil, nil
	}
	chosen, matchedBy, wrong := c.choose(labels)
	if problems = append(problems, wrong...); len(wrong) > 0 {
		return nil, problems.labelError()
	}
	tree, malformed := labelTree(labels, c.labels.allow)
	problems = append(problems, malformed...)

	base, r := newTable(tree.at), &reader{rules: &c.labels}
	if chosen != nil {
		base, r.prefix = chosen.node, chosen.prefix()
	}
	merged := overlayLabels(base, tree)
	spec := readSpec(r, merged)
	c.checkPush(r, merged)
	c.labels.checkNames(r, merged, labels[composeProject])
	problems = append(problems, r.problems...)
	if len(problems) > 0 {
		return nil, problems.labelError()
	}
	if chosen == nil && !hasProbe(spec) {
		return nil, nil
	}
	spec.MatchedBy = matchedBy
	if chosen != nil {
		spec.Name = chosen.name
	}
	if spec.Publish.Service == "" {
		nameService(r, spec, name, serviceOf(labels))
	}
	spec.Values = r.values
	return spec, nil
}

func hasProbe(spec *core.Spec) bool {
	return spec.Probes != [core.NumProbes]*core.ProbeSpec{}
}

// readEnable says whether the container may be supervised. A label that is neither a
// yes nor a no is a problem, not a no. A one-off needs a yes, because its other labels
// may be copies of the service's.
func readEnable(labels map[string]string) (bool, Problems) {
	text, ok := labels[enableLabel]
	if !ok {
		return !oneOff(labels), nil
	}
	enabled, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		at := place{label: enableLabel}
		return true, Problems{at.problem("enable", "must be true or false, is %s", quote(text))}
	}
	return enabled, nil
}

// choose returns the container's [[spec]], if any, and why it is that one.
func (c *Config) choose(labels map[string]string) (*fileSpec, string, Problems) {
	name, ok := labels[specLabel]
	if !ok {
		for _, s := range c.specs {
			if s.matches(labels) {
				return s, "match " + s.describeMatch() + " (" + s.node.at.String() + ")", nil
			}
		}
		return nil, "labels only", nil
	}
	names := make([]string, len(c.specs))
	for i, s := range c.specs {
		if names[i] = s.name; s.name == name {
			if !s.claimable && !s.matches(labels) {
				at := place{label: specLabel}
				return nil, "", Problems{at.problem("spec", "%s cannot be chosen by a label: its claimable is false, as by default where a spec has headers", quote(name))}
			}
			return s, "label " + specLabel + "=" + name + " (" + s.node.at.String() + ")", nil
		}
	}
	at := place{label: specLabel}
	return nil, "", Problems{at.problem("spec", "there is no spec named %s%s", quote(name), didYouMean(name, names))}
}

// oneOff says whether Compose made the container for one command (docker compose run).
// It has the labels of the service but is not a replica, and it ends with the command.
func oneOff(labels map[string]string) bool { return labels[composeOneOff] == "True" }

// serviceOf is the compose service that a container is a replica of, if it is one.
func serviceOf(labels map[string]string) string {
	if oneOff(labels) {
		return ""
	}
	return labels[composeService]
}

// nameService fills in the default of publish.service.
func nameService(r *reader, spec *core.Spec, container, compose string) {
	origin := originDefault
	switch {
	// Compose wrote its label, unless somebody else did: it must be a name.
	case compose != "" && checkName(compose) == "":
		spec.Publish.Service, origin = compose, "label "+composeService
	case spec.Name != "":
		spec.Publish.Service = spec.Name
	default:
		spec.Publish.Service = container
	}
	r.values = append(r.values, core.Value{
		Path: "publish.service", Value: quoteTOML(spec.Publish.Service), Origin: origin,
	})
}
