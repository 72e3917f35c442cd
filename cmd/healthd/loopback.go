package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// toldLoopback warns of containers of which readers in other containers are told a loopback address, which is such a
// reader's own. Who listens where others ask means these.
func (d *daemon) toldLoopback(board *supervisor.Board, now time.Time) string {
	listen, by := d.begun.Listen, []string(nil)
	if beyondLoopback(listen.DNS) {
		by = append(by, "DNS")
	}
	if beyondLoopback(listen.HTTP) && d.traefik.active(now) {
		by = append(by, "Traefik")
	}
	if len(by) == 0 {
		return ""
	}
	var names []string
	for v := range board.All() {
		if onLoopback(v) {
			names = append(names, v.Container.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	const most = 5
	more := ""
	if len(names) > most {
		more, names = fmt.Sprintf(" and %d more", len(names)-most), names[:most]
	}
	return fmt.Sprintf("readers in containers are told their own loopback address (%s) of %s%s, on the host's network: "+
		"set publish.host_address", strings.Join(by, ", "), strings.Join(names, ", "), more)
}

// beyondLoopback says whether not only programs of the host reach a listener.
func beyondLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip, notIP := netip.ParseAddr(host)
	return err == nil && host != "localhost" && (notIP != nil || !ip.IsLoopback())
}

// onLoopback says that traffic for a container is sent to a loopback address because it uses the host's network.
func onLoopback(v *core.View) bool {
	address, port := v.Address()
	ip, err := netip.ParseAddr(address)
	return v.Container.HostNetwork && port != 0 && err == nil && ip.IsLoopback()
}
