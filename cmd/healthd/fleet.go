package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor"
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
		Earlier: j.HasBoots() && len(c.Runtimes) > 0, Boot: boot,
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

// outletsSupervisor is the supervisor as load balancers' outlets know it.
type outletsSupervisor interface {
	haproxy.Supervisor
	files.Supervisor
}

// outletsSupervisor returns whom this host's load balancers tell how drains go. In a fleet that counts on the host whose container it
// is about.
func (d *daemon) outletsSupervisor() outletsSupervisor {
	if d.fleet == nil {
		return alone{d.supervisor}
	}
	return overHosts{d.fleet, d.supervisor.Board()}
}

// alone is the supervisor of a host without a fleet.
type alone struct{ *supervisor.Supervisor }

// NotServed implements haproxy.Supervisor. Nobody asks whom this host's balancers do not serve: publish.drain ends that wait.
func (alone) NotServed(context.Context, runtime.Run) error { return nil }

// overHosts is the supervisor of a host in a fleet.
type overHosts struct {
	*fleet.Fleet
	board *supervisor.Board
}

// Board returns that of this host.
func (o overHosts) Board() *supervisor.Board { return o.board }
