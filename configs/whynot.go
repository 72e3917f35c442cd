package configs

import (
	"fmt"
	"strings"

	"healthd/supervisor/core"
)

// WhyNot returns why Resolve leaves a container with these labels alone: what each spec misses. It is
// empty for one that Resolve does not leave alone.
func (c *Config) WhyNot(name string, labels map[string]string) []string {
	if spec, err := c.Resolve(name, labels); spec != nil || err != nil {
		return nil
	}
	enabled, _ := readEnable(labels)
	switch {
	case !enabled && core.OneOff(labels) && labels[enableLabel] == "":
		return []string{"docker compose run made it for one command, and it has no label " + enableLabel + "=true"}
	case !enabled:
		return []string{"it has the label " + enableLabel + "=" + quote(labels[enableLabel])}
	case len(c.specs) == 0:
		return []string{"it has no label that begins with " + labelPrefix + ", and there is no [[spec]]"}
	}
	why := []string{"it has no label that begins with " + labelPrefix}
	for _, s := range c.specs {
		why = append(why, fmt.Sprintf("spec %s (%s): %s", s.name, s.node.at, s.whyNot(labels)))
	}
	return why
}

// whyNot says what keeps the spec from matching: each label that does not fit.
func (s *fileSpec) whyNot(labels map[string]string) string {
	var missed []string
	for _, p := range s.match {
		switch value, ok := labels[p.label]; {
		case !ok:
			missed = append(missed, "it has no label "+p.label)
		case !glob(p.glob, value):
			missed = append(missed, fmt.Sprintf("its label %s is %s, not %s", p.label, quote(value), p.glob))
		}
	}
	if len(missed) == 0 {
		return "no match, only the label " + specLabel + "=" + s.name + " chooses it"
	}
	return strings.Join(missed, ", and ")
}
