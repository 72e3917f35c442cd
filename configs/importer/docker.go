package importer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Container is a container of an engine, as the import from engines takes it.
type Container struct {
	*runtime.Container
	Creation runtime.Creation
	// ConfiguredBy says what the present configuration of healthd has for it; empty: nothing.
	ConfiguredBy string
}

// Docker imports containers of engines: one spec for each Compose service and each other container that has a
// HEALTHCHECK, or that one of the programs that restart unhealthy containers looks after. all are those that there
// are: which of them are such programs follows from their images and variables. wanted are those to import; nil means all,
// and then also a spec for containers to come.
func Docker(all, wanted []Container) (*Document, error) {
	d := newDocument("the containers of this host")
	d.addDockerHead()
	healers := healersAmong(all)
	d.addHealers(healers)
	chosen := cmpOr(wanted, all)
	silent := []string{}
	owners := map[string]string{}
	for _, c := range all {
		owners[c.ID] = c.Name
	}
	seen := map[string]bool{}
	for _, c := range sorted(chosen) {
		s := serviceOf(c, owners)
		if seen[s.called()] || core.OneOff(c.Labels) || isHealer(c) || ImageName(c.Image) == "healthd" {
			continue
		}
		seen[s.called()] = true
		if wanted == nil && s.check == nil {
			if by := s.healedBy(healers); by.heals() && !by.all {
				d.head.lost("%s: %s, but it has no HEALTHCHECK, so that is without effect: write a probe for it", s.called(), by.why(true))
			} else {
				silent = append(silent, s.called())
			}
			continue
		}
		if _, err := d.addService(s, healers); err != nil {
			return nil, err
		}
	}
	if len(silent) > 0 {
		d.head.remark("Without a HEALTHCHECK, so not here: %s. healthd can ask them by itself; healthd import docker NAME begins a spec.", strings.Join(silent, ", "))
	}
	if wanted == nil {
		if err := d.addRest(healers); err != nil {
			return nil, err
		}
	}
	return d.finish()
}

func cmpOr(wanted, all []Container) []Container {
	if wanted != nil {
		return wanted
	}
	return all
}

// sorted orders containers by Compose project, service and number, then by name.
func sorted(all []Container) []Container {
	number := func(c Container) int {
		n, _ := strconv.Atoi(c.Labels[core.ComposeNumber])
		return n
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b Container) int {
		return cmp.Or(
			strings.Compare(core.ServiceOf(a.Labels), core.ServiceOf(b.Labels)), cmp.Compare(number(a), number(b)), strings.Compare(a.Name, b.Name),
		)
	})
}

func serviceOf(c Container, owners map[string]string) *service {
	s := &service{
		container: c.Name, labels: c.Labels, check: c.Creation.Healthcheck, restart: c.RestartPolicy, restartMax: c.Creation.RestartMax,
		stopTimeout: c.StopTimeout, autoRemove: c.AutoRemove, networkOf: cmp.Or(owners[c.NetworkOwner], c.NetworkOwner), ports: c.Creation.Ports,
		configuredBy: c.ConfiguredBy,
	}
	if core.ServiceOf(c.Labels) != "" {
		s.project, s.name = c.Labels[core.ComposeProject], c.Labels[core.ComposeService]
	}
	return s
}

func isHealer(c Container) bool { return healerIn(c) != nil }

func healerIn(c Container) *healer {
	return healerOf(c.Name, c.Image, environment(c.Env), c.Creation.HasSocket)
}

// healersAmong returns the programs that restart unhealthy containers.
func healersAmong(all []Container) []*healer {
	var healers []*healer
	for _, c := range sorted(all) {
		if h := healerIn(c); h != nil {
			healers = append(healers, h)
		}
	}
	return healers
}

func environment(env []string) map[string]string {
	byName := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		byName[name] = value
	}
	return byName
}
