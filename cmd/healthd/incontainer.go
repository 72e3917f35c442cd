package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// newStandpoint returns where this process runs.
func newStandpoint() *runtime.Standpoint {
	return &runtime.Standpoint{ID: hostproc.OwnContainer(), Sees: hostproc.Beside, Enters: prober.CanEnterNamespaces(), Has: hasAddress, Links: links}
}

// hasAddress says whether an interface of this process' network has the address. Where it may not ask, it has.
func hasAddress(address string) bool {
	own, err := net.InterfaceAddrs()
	ip := net.ParseIP(address)
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.Equal(ip)
	})
}

// links returns the networks of this process' interfaces; nil: it may not ask.
func links() []netip.Prefix {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	all := []netip.Prefix{}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked())
		}
	}
	return all
}

// standIn has the engines seen from the container that healthd runs in, if it does. When that is found, or its
// networks change, all containers are looked at again.
func standIn(point *runtime.Standpoint, engines []*engine, found func()) {
	point.Changed = func() {
		for _, e := range engines {
			signalChannel(e.refresh)
		}
		found()
	}
	for _, e := range engines {
		e.source = point.Source(e.name, e.client)
		e.rivals.Source = e.source
	}
}

// tellContainer logs once what does not work in the container that healthd runs in.
func (d *daemon) tellContainer() {
	own := d.point.Own()
	if own == nil || !own.State.Alive() { // its engine has not noticed yet
		return
	}
	d.tellOnce.Do(func() {
		var names []string
		for _, n := range own.Networks {
			names = append(names, n.Network)
		}
		if len(names) == 0 && own.Network != "" {
			names = []string{own.Network}
		}
		d.log.Info("healthd runs in a container", zap.String("container", own.Name), zap.Strings("networks", names))
		for _, w := range containerLimits(d.point.From(own.Runtime), d.begun, d.listeners, onRootDisk(d.begun.State.Dir)) {
			d.log.Warn("healthd runs in a container", zap.String("warning", w))
		}
	})
}

// containerLimits says what a healthd in a container cannot do, and what to do about it.
func containerLimits(from *runtime.Vantage, c *configs.Config, ls *listeners, forgets bool) []string {
	var all []string
	if forgets {
		all = append(all, fmt.Sprintf("state.dir %s is in the container's own file system: what healthd remembers is lost when the container is made anew: mount a volume there (-v healthd:%[1]s)", c.State.Dir))
	}
	if from.Confined() {
		reached := "it reaches only containers of its own networks"
		if len(from.Networks) > 0 {
			reached += " (" + strings.Join(from.Networks, ", ") + ")"
		}
		all = append(all, reached+": probes of others by HTTP, TCP and gRPC are Unknown; connect it to their networks, or run it with --network=host")
		if unheard := ls.onLoopback(); len(unheard) > 0 {
			all = append(all, fmt.Sprintf("nobody outside of it reaches %s on 127.0.0.1: set 0.0.0.0 and publish the port to have metrics and checks", strings.Join(unheard, " and ")))
		}
	}
	if from.Blind {
		all = append(all, "without --pid=host it cannot end commands of probes that hang")
	}
	if from.CannotEnter != "" {
		all = append(all, `without --pid=host --cap-add SYS_ADMIN --cap-add SYS_PTRACE it cannot ask inside the network of a container (via = "container")`)
	}
	return all
}

// onLoopback returns the keys of those that listen on a loopback address.
func (ls *listeners) onLoopback() (keys []string) {
	for _, l := range []struct{ key, address string }{
		{"listen.agent", address(ls.agent)}, {"listen.dns", ls.dnsAddress()}, {"listen.http", address(ls.http)},
	} {
		if a, err := netip.ParseAddrPort(l.address); err == nil && a.Addr().IsLoopback() {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// onRootDisk says that a directory is on the file system of /, which of a container goes with it.
func onRootDisk(dir string) bool {
	var root, own unix.Stat_t
	return dir != "" && unix.Stat("/", &root) == nil && unix.Stat(dir, &own) == nil && root.Dev == own.Dev
}
