package main

import (
	"cmp"
	"context"
	"errors"
	"healthd/configs"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/fleet"
	"slices"
	"strings"
	"time"
)

// fleetOf returns the fleet as the API shows it; nil: there is none.
func (d *daemon) fleetOf() api.Fleet {
	if d.fleet == nil {
		return nil
	}
	return shownFleet{d.fleet, d.begun.Fleet, d.supervisor.Board()}
}

// shownFleet is the fleet as the API shows it.
type shownFleet struct {
	fleet  *fleet.Fleet
	config *configs.Fleet
	board  *supervisor.Board
}

// Hold implements api.Fleet.
func (s shownFleet) Hold(ctx context.Context, service string, d time.Duration) error {
	return s.fleet.Hold(ctx, service, d)
}

// Resume implements api.Fleet.
func (s shownFleet) Resume(ctx context.Context, service string) error {
	err := s.fleet.Resume(ctx, service)
	if errors.Is(err, fleet.ErrNoHold) {
		return api.ErrNoFleetHold
	}
	return err
}

// View implements api.Fleet.
func (s shownFleet) View() api.FleetView {
	is, now := s.fleet.Status(), time.Now()
	v := api.FleetView{Host: is.Host, Connected: is.Connected, Since: core.ByClock(is.Since, now), Endpoints: s.config.Endpoints, WrongKeys: len(is.WrongKeys)}
	switch {
	case !is.Connected:
		v.Error = is.Error
	case is.Error != "":
		v.Problems = []string{is.Error}
	}
	v.Members = s.members(is.Host)
	v.Hosts = s.hosts(is, v.Members, now)
	for _, h := range s.fleet.Holds() {
		v.Holds = append(v.Holds, api.FleetHold{Service: h.Service, By: h.By, Since: h.Since.UTC(), For: h.For})
	}
	return v
}

// hosts returns all hosts, sorted by name. This one's members are counted here: the fleet knows those of others.
func (s shownFleet) hosts(is *fleet.Status, members []api.FleetMember, now time.Time) (all []api.FleetHost) {
	for _, h := range is.Hosts {
		all = append(all, api.FleetHost{
			Name: h.Name, State: string(h.State), Since: core.ByClock(h.Since, now), Address: h.Address, Version: h.Version, Balancer: h.Balancer,
			Ready: h.Members.Ready, Draining: h.Members.Draining, Down: h.Members.Down,
		})
	}
	own := api.FleetHost{Name: is.Host, State: api.FleetHostLive, Since: core.ByClock(is.Began, now), Version: thisBuild().version, Balancer: is.Balancer}
	if s.config.Advertise.IsValid() {
		own.Address = s.config.Advertise.String()
	}
	for i := range members {
		if members[i].Host == is.Host {
			count(&own, members[i].State)
		}
	}
	all = append(all, own)
	slices.SortFunc(all, func(a, b api.FleetHost) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func count(h *api.FleetHost, state string) {
	switch state {
	case supervisor.MemberReady:
		h.Ready++
	case supervisor.MemberDraining:
		h.Draining++
	default:
		h.Down++
	}
}

// members returns those of all hosts, sorted by service, host and name. This host's are shown as other hosts see them.
func (s shownFleet) members(own string) (all []api.FleetMember) {
	for v := range s.board.All() {
		if v.Service != "" {
			all = append(all, s.ownMember(own, v))
		}
	}
	for m := range s.board.RemoteMembers() {
		all = append(all, api.FleetMember{
			Service: m.Service, Host: m.Host, Container: m.Container, Address: m.Address, Port: m.Port, State: m.State(), Reason: m.Reason,
		})
	}
	slices.SortFunc(all, func(a, b api.FleetMember) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Host, b.Host), strings.Compare(a.Container, b.Container))
	})
	return all
}

func (s shownFleet) ownMember(host string, v *core.View) api.FleetMember {
	m := supervisor.MemberOf(v)
	shown := api.FleetMember{Service: m.Service, Host: host, Container: s.board.NameOf(v.Container), State: m.State(), Reason: m.Reason}
	if address, port, _ := advertised(v, s.config.Advertise); address.IsValid() {
		shown.Address, shown.Port = address.String(), port
	}
	return shown
}
