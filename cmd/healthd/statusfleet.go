package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

// fleet returns the fleet as the daemon knows it.
func (c *client) fleet(ctx context.Context) (*api.FleetView, error) {
	var v api.FleetView
	err := c.get(ctx, "/v1/fleet", nil, &v)
	return &v, err
}

// showFleet prints the fleet, or what belongs to the named services and hosts, and then an error for each unknown
// name. Warnings go to warn, or if that is nil, below the tables.
func (a *app) showFleet(ctx context.Context, c *client, w, warn io.Writer, f statusForm, names []string) error {
	v, err := c.fleet(ctx)
	if err != nil {
		return unlessCancelled(ctx, fmt.Errorf("cannot show the fleet: %w", err))
	}
	failed := narrow(v, names)
	if f.output == asJSON {
		encoder := json.NewEncoder(supervisor.Escaping{To: w})
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(v); err != nil {
			return err
		}
		return errors.Join(failed...)
	}
	if len(failed) < len(names) || len(names) == 0 {
		if err := a.printFleet(w, warn, v, f); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// printFleet writes the tables, and what is to be said beside them. Warnings go to warn, or if that is nil, below.
func (a *app) printFleet(w, warn io.Writer, v *api.FleetView, f statusForm) error {
	beside := w
	if warn != nil && f.noHeaders { // a program reads w: rows only
		beside = warn
	}
	if err := writeFleet(w, beside, v, f, a.colours, a.columns(), time.Now()); err != nil {
		return err
	}
	before := ""
	if warn == nil {
		warn, before = w, "\n"
	}
	return writeWarnings(warn, before, fleetWarnings(v), nil, a.columns())
}

// fleetWarnings returns what is wrong beside an etcd that is away.
func fleetWarnings(v *api.FleetView) []string {
	texts := slices.Clone(v.Problems)
	if v.WrongKeys > 0 {
		texts = append(texts, plural(v.WrongKeys, "key")+" in etcd cannot be read: healthd leaves them alone")
	}
	return texts
}

// narrow leaves of a fleet what belongs to services and hosts of these names, with the counts of that. It returns an
// error for each unknown name.
func narrow(v *api.FleetView, names []string) (failed []error) {
	if len(names) == 0 {
		return nil
	}
	services, hosts := fleetServices(v), fleetHosts(v)
	wantedServices, wantedHosts := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		service, err := fleetService(services, name)
		isHost := slices.Contains(hosts, name)
		if isHost {
			wantedHosts[name] = true
		}
		switch unknown := errors.Is(err, errNoFleetService); {
		case err == nil:
			wantedServices[service] = true
		case unknown && !isHost:
			failed = append(failed, fmt.Errorf("cannot show %s: no host of the fleet has that name, and no service%s", name, didYouMean(name, slices.Concat(services, hosts))))
		case !unknown && !isHost:
			failed = append(failed, fmt.Errorf("cannot show %s: %w", name, err))
		}
	}
	v.Members = slices.DeleteFunc(v.Members, func(m api.FleetMember) bool { return !wantedServices[m.Service] && !wantedHosts[m.Host] })
	shownServices, shownHosts := wantedServices, map[string]*api.FleetHost{}
	v.Hosts = slices.DeleteFunc(v.Hosts, func(h api.FleetHost) bool {
		return !wantedHosts[h.Name] && !slices.ContainsFunc(v.Members, func(m api.FleetMember) bool { return m.Host == h.Name })
	})
	for i := range v.Hosts {
		h := &v.Hosts[i]
		h.Ready, h.Draining, h.Down = 0, 0, 0
		shownHosts[h.Name] = h
	}
	for _, m := range v.Members {
		shownServices[m.Service] = true
		if h := shownHosts[m.Host]; h != nil {
			*countOf(h, m.State)++
		}
	}
	v.Holds = slices.DeleteFunc(v.Holds, func(h api.FleetHold) bool { return !shownServices[h.Service] })
	return failed
}

// countOf returns the number of a host's members that are in a state.
func countOf(h *api.FleetHost, state string) *int {
	switch state {
	case supervisor.MemberReady:
		return &h.Ready
	case supervisor.MemberDraining:
		return &h.Draining
	}
	return &h.Down
}

// fleetServices returns the full names of all services of a fleet, sorted.
func fleetServices(v *api.FleetView) []string {
	var names []string
	for _, m := range v.Members {
		names = append(names, m.Service)
	}
	for _, h := range v.Holds {
		names = append(names, h.Service)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// fleetHosts returns the names of all hosts of a fleet, sorted. Members may be known of one that is not.
func fleetHosts(v *api.FleetView) []string {
	var names []string
	for _, h := range v.Hosts {
		names = append(names, h.Name)
	}
	for _, m := range v.Members {
		names = append(names, m.Host)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var errNoFleetService = errors.New("no host of the fleet publishes such a service")

// fleetService returns the service that a word stands for: its full name, or the part of it behind the project
// while no other service has that. The error is errNoFleetService, or says which services have that name.
func fleetService(services []string, word string) (string, error) {
	if slices.Contains(services, word) {
		return word, nil
	}
	var found []string
	for _, name := range services {
		if _, last, ok := strings.Cut(name, "/"); ok && last == word {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", errNoFleetService
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several services have that name: %s", line(strings.Join(found, ", ")))
}

// serviceRow is a service in the table.
type serviceRow struct {
	name         string
	ready, total int
	hosts        []string
	hold         *api.FleetHold
}

// serviceRows returns all services of a fleet, also those that are held while nobody has them.
func serviceRows(v *api.FleetView) []*serviceRow {
	byName := map[string]*serviceRow{}
	row := func(name string) *serviceRow {
		if byName[name] == nil {
			byName[name] = &serviceRow{name: name}
		}
		return byName[name]
	}
	for _, m := range v.Members {
		s := row(m.Service)
		if s.total++; m.State == supervisor.MemberReady {
			s.ready++
		}
		if !slices.Contains(s.hosts, m.Host) {
			s.hosts = append(s.hosts, m.Host)
		}
	}
	for i := range v.Holds {
		row(v.Holds[i].Service).hold = &v.Holds[i]
	}
	rows := make([]*serviceRow, 0, len(byName))
	for _, s := range byName {
		rows = append(rows, s)
	}
	slices.SortFunc(rows, func(x, y *serviceRow) int { return cmp.Compare(x.name, y.name) })
	return rows
}
