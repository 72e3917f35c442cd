package docker

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// Place says where the engine is. Only of a Unix socket behind which an engine itself listens its network is known: a
// proxy's says nothing of the engine's. It is not sure where the engine, or a resolver, does not answer.
func (e *Engine) Place(ctx context.Context) (at runtime.Place, sure bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if !e.OnHost() {
		if at, own := e.address(ctx); !own {
			return runtime.Place{Elsewhere: "its engine (" + e.endpoint() + ") is on another host", At: at}, at.IsValid()
		}
	}
	program, sameNetwork := e.peer(ctx)
	rootless, sure := false, true
	if program != "dockerd" || !sameNetwork {
		rootless, sure = e.isRootless(ctx)
	}
	return placeBehind(program, sameNetwork, rootless), sure
}

// placeBehind says where an engine is behind whose socket a program listens: see hostproc.Peer.
func placeBehind(program string, sameNetwork, rootless bool) runtime.Place {
	switch {
	case program == "dockerd" && sameNetwork: // also if it is rootless
	case rootless:
		hostNetwork := sameNetwork && (program == "podman" || program == "systemd") // which has made Podman's socket
		return runtime.Place{Elsewhere: "its engine is rootless, with a network of its own", At: loopback, SameHostNetwork: hostNetwork}
	case (program == "dockerd" || program == "podman") && !sameNetwork:
		return runtime.Place{Elsewhere: "its engine is in another network namespace than healthd"}
	}
	return runtime.Place{}
}

// loopback is where the port driver of a rootless engine passes on what that publishes.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// peer is hostproc.Peer of the engine's socket.
func (e *Engine) peer(ctx context.Context) (program string, sameNetwork bool) {
	path, ok := strings.CutPrefix(e.endpoint(), "unix://")
	if !ok {
		return "", false
	}
	return hostproc.Peer(ctx, path)
}

// address is that of an engine whose endpoint does not tell that it is on this host, and whether it is all the same: the
// endpoint may be another name of this host. Invalid: its name does not resolve.
func (e *Engine) address(ctx context.Context) (at netip.Addr, own bool) {
	u, err := url.Parse(e.endpoint())
	if err != nil {
		return netip.Addr{}, false
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return netip.Addr{}, false
	}
	return addressAmong(all)
}

// addressAmong is address for what the name resolves to.
func addressAmong(all []netip.Addr) (at netip.Addr, own bool) {
	if len(all) == 0 {
		return netip.Addr{}, false
	}
	return all[0].Unmap(), slices.ContainsFunc(all, func(a netip.Addr) bool {
		ip := net.IP(a.Unmap().AsSlice())
		return isOwn(ip) || onBridge(ip)
	})
}

// onBridge says that an address is behind a bridge of this host, as a container's is in which a socket proxy runs.
func onBridge(ip net.IP) bool {
	all, _ := net.Interfaces()
	return slices.ContainsFunc(all, func(i net.Interface) bool {
		if _, err := os.Stat("/sys/class/net/" + i.Name + "/bridge"); err != nil {
			return false
		}
		addresses, _ := i.Addrs()
		return slices.ContainsFunc(addresses, func(a net.Addr) bool {
			prefix, ok := a.(*net.IPNet)
			return ok && prefix.Contains(ip)
		})
	})
}

// isRootless says what the engine says of itself. Where a socket proxy forbids the question it is not.
func (e *Engine) isRootless(ctx context.Context) (rootless, sure bool) {
	info, err := e.info(ctx)
	if err != nil {
		e.log.Warn("cannot ask whether the engine is rootless: healthd asks again", zap.Error(err))
	}
	return slices.Contains(info.SecurityOptions, "name=rootless"), err == nil
}
