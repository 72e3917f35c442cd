package configs

import (
	"fmt"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// WhySelf is why healthd leaves its own container alone: nobody would start it again after the stop.
const WhySelf = "healthd itself runs in it, and could not start it again after a stop"

// WhyNot returns why Resolve leaves a container alone: what each spec misses. It is
// empty for one that Resolve does not leave alone.
func (c *Config) WhyNot(t runtime.Traits) []string {
	if spec, err := c.Resolve(t); spec != nil || err != nil {
		return nil
	}
	var why []string
	labels := t.Labels
	if _, clipped := labels[runtime.LabelsClipped]; clipped {
		why = append(why, labelsClipped)
	}
	enabled, _ := readEnable(labels)
	switch {
	case t.Self:
		return []string{WhySelf}
	case !enabled && core.OneOff(labels) && labels[enableLabel] == "":
		return []string{"docker compose run made it for one command, and it has no label " + enableLabel + "=true"}
	case !enabled:
		return []string{"it has the label " + enableLabel + "=" + quote(labels[enableLabel])}
	case len(c.specs) == 0:
		return append(why, "it has no label that begins with "+labelPrefix+", and there is no [[spec]]")
	}
	why = append(why, "it has no label that begins with "+labelPrefix)
	for _, s := range c.specs {
		why = append(why, fmt.Sprintf("spec %s (%s): %s", s.name, s.own.at, s.whyNot(t)))
	}
	return why
}

// whyNot says what keeps the spec from matching.
func (s *fileSpec) whyNot(t runtime.Traits) string {
	if s.matcher.none() {
		return "no match, only the label " + specLabel + "=" + s.name + " chooses it"
	}
	return strings.Join(s.matcher.missed(t), ", and ")
}
