package configs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// WhySelf is why healthd leaves its own container alone: nobody would start it again after the stop.
const WhySelf = "healthd itself runs in it, and could not start it again after a stop"

// WhyNot returns why Resolve leaves a container alone: what each spec misses. It is
// empty for one that Resolve does not leave alone.
func (c *Config) WhyNot(t runtime.Traits) []string { return c.whyNot(t, c.specs) }

// NearestWhyNot is WhyNot of the two specs at most whose names are most like the container's. Those that only a label
// chooses come last.
func (c *Config) NearestWhyNot(t runtime.Traits) []string {
	const most, compared = 2, 64
	service := cmp.Or(t.Labels[core.ComposeService], t.Name)
	far := func(s *fileSpec) int {
		if s.matcher.none() {
			return math.MaxInt
		}
		return distance(s.name[:min(len(s.name), compared)], service[:min(len(service), compared)])
	}
	nearest := slices.SortedStableFunc(slices.Values(c.specs), func(a, b *fileSpec) int {
		return cmp.Compare(far(a), far(b))
	})
	return c.whyNot(t, nearest[:min(len(nearest), most)])
}

func (c *Config) whyNot(t runtime.Traits, specs []*fileSpec) []string {
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
	for _, s := range specs {
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
