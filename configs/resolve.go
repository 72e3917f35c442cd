package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// probeKeys are the keys of a spec's probes.
func probeKeys() []string {
	var keys []string
	for which := range core.ProbeType(core.NumProbes) {
		keys = append(keys, which.String())
	}
	return keys
}

// Resolve returns how a container is to be supervised. It returns nil and no error when the
// container is to be left alone, as healthd's own always is, and an error when a label is wrong: the
// container is then Invalid. It may be called from any goroutine.
func (c *Config) Resolve(container runtime.Traits) (*core.Spec, error) {
	labels := container.Labels
	enabled, problems := readEnable(labels)
	if !enabled || container.Self {
		return nil, nil
	}
	chosen, matchedBy, wrong := c.choose(container)
	if chosen == nil && !hasLabel(labels) {
		return nil, nil
	}
	if _, clipped := labels[runtime.LabelsClipped]; clipped {
		wrong = append(wrong, place{label: "healthd"}.problem("*", "%s", labelsClipped))
	}
	if problems = append(problems, wrong...); len(wrong) > 0 {
		return nil, problems.labelError()
	}
	d, matchedBy := c.drafts.of(chosen, labels, matchedBy, func() *draft { return c.draft(chosen, labels) })
	if problems = append(problems, d.problems...); len(problems) > 0 {
		return nil, problems.labelError()
	}
	spec := d.spec
	spec.MatchedBy = matchedBy
	if !d.named {
		spec.Publish.Service, spec.ServiceOrigin = defaultService(spec.Name, container.Name, labels)
	}
	c.drainForOutlets(&spec, d.drainSet)
	return &spec, nil
}

// labelsClipped is why healthd supervises no container of which it does not know all labels: one may say enable=false.
var labelsClipped = fmt.Sprintf("the container's labels are too large: healthd reads %d KiB of them", runtime.MaxLabels>>10)

// draft reads what a [[spec]], if any, and labels say.
func (c *Config) draft(chosen *fileSpec, labels map[string]string) *draft {
	tree, problems := labelTree(labels, c.labels.allow)
	base, own, r := c.defaultsAt(tree.at), []*node{tree}, &reader{rules: &c.labels}
	if chosen != nil {
		base, own, r.prefix = chosen.node, append(own, chosen.own), chosen.prefix()
	}
	merged := withoutTimingOnly(overlayHandlers(base, tree), own...)
	spec := readSpec(r, merged)
	c.checkPush(r, merged)
	c.labels.checkNames(r, merged, core.ProjectOf(labels))
	if problems = append(problems, r.problems...); len(problems) > 0 {
		return &draft{problems: problems}
	}
	if chosen != nil {
		spec.Name = chosen.name
	}
	named := nameService(r, spec, merged, labels)
	leaveStart(r, spec, merged, labels)
	c.observe(r, spec)
	spec.Values = slices.Clone(r.values)
	return &draft{spec: *spec, named: named, drainSet: merged.below("publish.drain") != nil}
}

// defaultsAt returns [defaults] as the spec of a container that has labels only.
func (c *Config) defaultsAt(at place) *node {
	if c.defaults == nil {
		return newTable(at)
	}
	n := cloneTable(c.defaults)
	n.at = at
	return n
}

// MaySupervise says whether Resolve does not leave the container alone. Where the image is not known,
// it says whether there is one with which that may be so.
func (c *Config) MaySupervise(container runtime.Traits) bool {
	enabled, _ := readEnable(container.Labels)
	switch {
	case !enabled || container.Self:
		return false
	case hasLabel(container.Labels): // be they right or wrong
		return true
	}
	if chosen, _, _ := c.choose(container); chosen != nil || container.Image != "" {
		return chosen != nil
	}
	return slices.ContainsFunc(c.specs, func(s *fileSpec) bool {
		if s.matcher.image == "" {
			return false
		}
		anyImage := s.matcher
		anyImage.image = "*"
		_, ok := anyImage.matches(container)
		return ok
	})
}

// hasLabel says whether the container asks for healthd, be it with a label that is wrong.
func hasLabel(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, labelPrefix) {
			return true
		}
	}
	return false
}

// readEnable says whether the container may be supervised. A label that is neither a
// yes nor a no is a problem, not a no. A one-off needs a yes, because its other labels
// may be copies of the service's.
func readEnable(labels map[string]string) (bool, Problems) {
	text, ok := labels[enableLabel]
	if !ok {
		return !core.OneOff(labels), nil
	}
	enabled, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		at := place{label: enableLabel}
		return true, Problems{at.problem("enable", "must be true or false, is %s", quote(text))}
	}
	return enabled, nil
}

// choose returns the container's [[spec]], if any, and why it is that one.
func (c *Config) choose(container runtime.Traits) (*fileSpec, string, Problems) {
	name, ok := container.Labels[specLabel]
	if !ok {
		for _, s := range c.specs {
			if by, ok := s.matcher.matches(container); ok {
				return s, s.matcher.describe(by) + " (" + s.own.at.String() + ")", nil
			}
		}
		return nil, "labels only", nil
	}
	names := make([]string, len(c.specs))
	for i, s := range c.specs {
		if names[i] = s.name; s.name == name {
			if _, fits := s.matcher.matches(container); !s.claimable && !fits {
				at := place{label: specLabel}
				return nil, "", Problems{at.problem("spec", "%s cannot be chosen by a label: its claimable is false, as by default where a spec has headers or certificates", quote(name))}
			}
			return s, "label " + specLabel + "=" + name + " (" + s.own.at.String() + ")", nil
		}
	}
	at := place{label: specLabel}
	return nil, "", Problems{at.problem("spec", "there is no spec named %s%s", quote(name), didYouMean(name, names))}
}

// observe has healthd only observe the container where the spec or the daemon says so. A hook is an
// act, too.
func (c *Config) observe(r *reader, spec *core.Spec) {
	if c.Observe && !spec.Observe {
		spec.Observe = true
		r.change("mode", quoteTOML(modeObserve), c.mode.String())
	}
	if spec.Observe {
		spec.Lifecycle = core.Lifecycle{}
	}
}

// nameService fills in publish.service where it is set, and says whether it is. What a label calls NAME is NAME of
// the container's own Compose project: two projects that think of the same name do not join each other's service.
func nameService(r *reader, spec *core.Spec, merged *node, labels map[string]string) bool {
	n := merged.below("publish.service")
	if n == nil {
		return false
	}
	spec.Publish.Owned = !n.at.fromLabel()
	if project := core.ProjectOf(labels); !spec.Publish.Owned && project != "" && !strings.Contains(n.text, "/") {
		spec.Publish.Service = project + "/" + n.text
		r.change("publish.service", quoteTOML(spec.Publish.Service), "")
	}
	return true
}

// defaultService is the service of a container for which neither file nor labels name one, and where
// the name is from.
func defaultService(spec, container string, labels map[string]string) (service, origin string) {
	_, inProject := labels[core.ComposeProject]
	alone := labels[core.ComposeService]
	switch service := core.ServiceOf(labels); {
	case service != "":
		return service, "labels " + core.ComposeProject + ", " + core.ComposeService
	// Compose wrote its labels, unless somebody else did.
	case !inProject && checkName(alone) == "" && !core.OneOff(labels):
		return alone, "label " + core.ComposeService
	case spec != "" && !core.OneOff(labels): // whose spec may be called as the service is
		return spec, originDefault
	}
	return container, originDefault
}
