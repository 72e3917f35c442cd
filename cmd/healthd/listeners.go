package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"healthd/configs"
	"healthd/supervisor/api"
	"healthd/supervisor/dns"
)

// listeners are the daemon's listeners; http, agent and dns are nil when they are off.
type listeners struct {
	control     *controlListener
	http, agent net.Listener
	dns         *dns.Listeners
}

func listen(c *configs.Config) (*listeners, error) {
	group, err := controlGroup(c)
	if err != nil {
		return nil, setupError{err}
	}
	ls := &listeners{}
	if err := ls.open(c.Listen, group); err != nil {
		ls.close()
		return nil, err
	}
	return ls, nil
}

func (ls *listeners) open(c configs.Listen, group int) (err error) {
	// The control socket comes first, as it knows best that there is another healthd.
	control, err := listenControl(c, group)
	if err != nil {
		return err
	}
	ls.control = control
	if ls.http, err = listenTCP("http", c.HTTP); err != nil {
		return err
	}
	if ls.agent, err = listenTCP("agent", c.Agent); err != nil {
		return err
	}
	ls.dns, err = listenDNS(c.DNS)
	return err
}

// ownGroup is no group's number: files keep the group of who made them.
const ownGroup = -1

// controlGroup returns the number of listen.control_group. A group that the host does not have is an error
// with the place of the key.
func controlGroup(c *configs.Config) (int, error) {
	name := c.Listen.ControlGroup
	if name == "" {
		return ownGroup, nil
	}
	text := name
	switch g, err := user.LookupGroup(name); {
	case err == nil:
		text = g.Gid
	case !errors.As(err, new(user.UnknownGroupError)):
		return 0, fmt.Errorf("%s: listen.control_group: cannot look up the group %q: %w", c.ControlGroupPlace(), name, err)
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || number == math.MaxUint32 { // which would be ownGroup
		return 0, fmt.Errorf("%s: listen.control_group: there is no group %q on this host", c.ControlGroupPlace(), name)
	}
	return int(number), nil
}

func listenTCP(key, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(key, address, err)
	}
	return ln, nil
}

func listenDNS(address string) (*dns.Listeners, error) {
	if address == "" {
		return nil, nil
	}
	ls, err := dns.Listen(address)
	if err != nil {
		return nil, listenError("dns", address, err)
	}
	return ls, nil
}

// listenError says what to do about it.
func listenError(key, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: another program listens there: stop it, or change listen.%s", address, key)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: ports below 1024 need CAP_NET_BIND_SERVICE: choose another one as listen.%s: %w", address, key, fs.ErrPermission)
	}
	return fmt.Errorf("cannot listen on %s (listen.%s): %w", address, key, err)
}

func (ls *listeners) close() {
	if ls.control != nil {
		ls.control.Close()
	}
	for _, c := range []net.Listener{ls.http, ls.agent} {
		if c != nil {
			c.Close()
		}
	}
	if ls.dns != nil {
		ls.dns.Close()
	}
}

func address(ln net.Listener) string {
	if ln == nil {
		return ""
	}
	return ln.Addr().String()
}

// dnsAddress is that of TCP and UDP; empty: DNS is off.
func (ls *listeners) dnsAddress() string {
	if ls.dns == nil {
		return ""
	}
	return ls.dns.Addr().String()
}

// readOnly returns the handler for the network. A loopback listener answers only to its own names.
func (d *daemon) readOnly(a *api.API, ln net.Listener) http.Handler {
	if address, ok := ln.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() {
		return api.OnlyHosts(a.ReadOnly(), d.begun.Listen.Hosts)
	}
	return a.ReadOnly()
}

// Of the process's descriptors, listeners take these parts at most. The rest is for probes, engines
// and HAProxy. A silent client of the agent holds its one for 50 ms when there are many, so it needs
// more to be through with a crowd soon.
const (
	agentShare   = 2
	httpShare    = 4
	controlShare = 8
	dnsShare     = 32
)

// connections returns how many clients a listener serves at once.
func connections(share uint64) int {
	const most = 1024
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return most
	}
	return int(min(most, max(1, limit.Cur/share)))
}
