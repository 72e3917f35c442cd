package metrics

import (
	"strings"

	"healthd/supervisor/core"
)

// probed has the services of the containers in a scrape, and which probes they have.
type probed map[serviceOfProject]*[core.NumProbes]bool

type serviceOfProject struct{ service, project string }

func (p probed) note(v *core.View) {
	if v.Spec == nil {
		return
	}
	of := serviceOfProject{v.Service, core.ProjectOf(v.Container.Labels)}
	if p[of] == nil {
		p[of] = &[core.NumProbes]bool{}
	}
	for t, spec := range v.Spec.Probes {
		p[of][t] = p[of][t] || spec != nil
	}
}

// collectLatencies sends one histogram for each service and type of probe, however many containers there are.
func (c *Collector) collectLatencies(s sink, all probed) {
	taken := make(map[serviceOfProject]bool, len(all))
	for of, probes := range all {
		shown := serviceOfProject{strings.ToValidUTF8(of.service, "\uFFFD"), strings.ToValidUTF8(of.project, "\uFFFD")}
		if taken[shown] {
			continue
		}
		taken[shown] = true
		for t, has := range probes {
			if !has {
				continue
			}
			// The service may have gone meanwhile.
			if h, found := c.board.Latency(of.service, of.project, core.ProbeType(t)); found {
				s.histogram(c.probeSeconds, core.LatencyBuckets[:], h.Counts[:], h.Sum,
					probeTypes[t], newPair("project", shown.project), newPair("service", shown.service))
			}
		}
	}
}
