package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/files"
	"healthd/supervisor/fleet"
	"healthd/supervisor/haproxy"
	"healthd/supervisor/journal"
)

// openFleet returns the fleet that a configuration wants; nil: none.
func openFleet(c *configs.Config, h *haproxy.HAProxy, j *journal.Journal, boot string, log *zap.Logger) (*fleet.Fleet, error) {
	if c.Fleet == nil {
		return nil, nil
	}
	own, err := os.Hostname()
	if err != nil && c.Fleet.Host == "" {
		return nil, fmt.Errorf("cannot find this host's name: %w: set fleet.host", err)
	}
	host, err := c.Fleet.HostName(own)
	if err != nil {
		return nil, setupError{err}
	}
	f, err := fleet.New(fleet.Config{
		Endpoints: c.Fleet.Endpoints, Prefix: c.Fleet.Prefix, Host: host, Advertise: c.Fleet.Advertise, TTL: c.Fleet.TTL,
		CAFile: c.Fleet.CAFile, CertFile: c.Fleet.CertFile, KeyFile: c.Fleet.KeyFile, User: c.Fleet.User, PasswordFile: c.Fleet.PasswordFile,
		Leave: c.Fleet.Leave, Balancer: len(c.HAProxy.Sockets) > 0,
		Version: thisBuild().version, StateDir: c.State.Dir,
		// Without an engine all that it served may be what other hosts publish now.
		Earlier: j.Boot() != "" && len(c.Runtimes) > 0, Boot: boot,
		AddressOf: func(v *core.View) (netip.Addr, int) {
			address, port, _ := advertised(v, c.Fleet.Advertise)
			return address, port
		},
		Journal: j, Changed: h.Changed, Log: log,
	})
	if err != nil {
		return nil, setupError{fmt.Errorf("cannot join the fleet: %w", err)}
	}
	return f, nil
}

// placesOf returns the places of groups over all hosts; nil: there are none.
func placesOf(f *fleet.Fleet) supervisor.Places {
	if f == nil {
		return nil
	}
	return f.Places()
}

// advertised returns where other hosts reach a container; why says why they do not.
func advertised(v *core.View, advertise netip.Addr) (address netip.Addr, port int, why string) {
	if v.Spec == nil {
		return netip.Addr{}, 0, "its labels are wrong"
	}
	p := &v.Spec.Publish
	return v.Container.Advertised(p.Port, p.Address == core.ContainerAddress, advertise)
}

// tellFiles tells the fleet whether this host writes files whose readers send requests.
func (d *daemon) tellFiles(all []files.File) {
	if d.fleet != nil {
		d.fleet.SetFiles(slices.ContainsFunc(all, func(f files.File) bool { return f.Drain > 0 }))
	}
}

// balanced is the supervisor as load balancers' outlets know it: with a fleet, what they say counts on the host whose container it is about.
type balanced interface {
	Board() *supervisor.Board
	Drained(ctx context.Context, run runtime.Run) error
	NotServed(ctx context.Context, run runtime.Run) error
	Withdrawn(ctx context.Context, run runtime.Run) error
}

// overHosts is balanced with a fleet.
type overHosts struct {
	*fleet.Fleet
	board *supervisor.Board
}

// Board returns that of this host.
func (o overHosts) Board() *supervisor.Board { return o.board }

func (d *daemon) balanced() balanced {
	if d.fleet == nil {
		return alone{d.supervisor}
	}
	return overHosts{d.fleet, d.supervisor.Board()}
}

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
	is := s.fleet.Status()
	v := api.FleetView{Host: is.Host, Connected: is.Connected, Since: is.Since.UTC(), Endpoints: s.config.Endpoints, WrongKeys: len(is.WrongKeys)}
	switch {
	case !is.Connected:
		v.Error = is.Error
	case is.Error != "":
		v.Problems = []string{is.Error}
	}
	for _, h := range is.Hosts {
		v.Hosts = append(v.Hosts, api.FleetHost{
			Name: h.Name, State: string(h.State), Since: h.Since.UTC(), Address: h.Address, Version: h.Version, Balancer: h.Balancer,
			Ready: h.Members.Ready, Draining: h.Members.Draining, Down: h.Members.Down,
		})
	}
	own := api.FleetHost{Name: is.Host, State: api.FleetHostLive, Since: is.Began.UTC(), Version: thisBuild().version, Balancer: is.Balancer}
	if s.config.Advertise.IsValid() {
		own.Address = s.config.Advertise.String()
	}
	for m := range s.board.AllMembers() {
		if m.Service == "" {
			continue
		}
		shown := s.member(&m)
		v.Members = append(v.Members, shown)
		if m.Host == "" {
			count(&own, shown.State)
		}
	}
	v.Hosts = append(v.Hosts, own)
	slices.SortFunc(v.Hosts, func(a, b api.FleetHost) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Members, func(a, b api.FleetMember) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Host, b.Host), strings.Compare(a.Container, b.Container))
	})
	for _, h := range s.fleet.Holds() {
		v.Holds = append(v.Holds, api.FleetHold{Service: h.Service, By: h.By, Since: h.Since.UTC(), For: h.For})
	}
	return v
}

func count(h *api.FleetHost, state string) {
	switch state {
	case api.FleetMemberReady:
		h.Ready++
	case api.FleetMemberDraining:
		h.Draining++
	default:
		h.Down++
	}
}

// member shows one. Those of this host are shown as other hosts see them.
func (s shownFleet) member(m *supervisor.Member) api.FleetMember {
	shown := api.FleetMember{Service: m.Service, Host: m.Host, Container: m.Container, Address: m.Address, Port: m.Port, Reason: m.Reason, State: api.FleetMemberDown}
	switch {
	case m.Ready:
		shown.State = api.FleetMemberReady
	case m.Draining:
		shown.State = api.FleetMemberDraining
	}
	if m.Host != "" {
		return shown
	}
	shown.Host, shown.Address, shown.Port = s.fleet.Status().Host, "", 0
	if v := s.board.ByID(m.ID); v != nil {
		shown.Container = s.board.NameOf(v.Container)
		if address, port, _ := advertised(v, s.config.Advertise); address.IsValid() {
			shown.Address, shown.Port = address.String(), port
		}
	}
	return shown
}

// fleetWarnings returns what is wrong with the fleet, and which containers other hosts cannot reach.
func (d *daemon) fleetWarnings() (all []string) {
	if d.fleet == nil {
		return nil
	}
	if text := d.fleet.Status().Error; text != "" {
		all = append(all, "fleet: "+text)
	}
	const most = 3
	more := 0
	for _, v := range d.supervisor.Board().Views() {
		if v.Service == "" || v.Spec == nil || v.Spec.Publish.Port == 0 || v.State.Engine.State != runtime.Running {
			continue
		}
		if _, _, why := advertised(v, d.begun.Fleet.Advertise); why != "" {
			if more++; more <= most {
				all = append(all, fmt.Sprintf("fleet: other hosts cannot reach %s: %s", d.supervisor.Board().NameOf(v.Container), why))
			}
		}
	}
	if more > most {
		all = append(all, fmt.Sprintf("fleet: other hosts cannot reach %d more containers", more-most))
	}
	return append(all, groupsOfOne(d.supervisor.Board().Views())...)
}

// groupsOfOne warns of containers that are to be in a group over all hosts and share theirs with their namesakes at most.
func groupsOfOne(views []*core.View) []string {
	var names []string
	for _, v := range views {
		if v.Spec != nil && v.Spec.Group.Fleet && v.Spec.Group.Name == "" && core.ServiceOf(v.Container.Labels) == "" {
			names = append(names, v.Container.Name)
		}
	}
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	switch more := len(names) - most; {
	case len(names) == 0:
		return nil
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{"fleet: only containers of the same name wait for " + text + ": a container that Compose has not made needs group.name to be in a group"}
}
