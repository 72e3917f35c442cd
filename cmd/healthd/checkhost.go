package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"healthd/configs"
)

// resolver finds the addresses of a name.
type resolver func(ctx context.Context, name string) ([]netip.Addr, error)

// resolveName asks as net.Listen does.
func resolveName(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// hostWarnings returns what of a configuration this host does not have. It may be valid on the host that
// it is for. A port in use is none: the daemon itself has it.
func hostWarnings(ctx context.Context, c *configs.Config, resolve resolver) []string {
	var all []string
	warn := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	warn(warnListen(ctx, "listen.http", c.Listen.HTTP, resolve))
	warn(warnListen(ctx, "listen.agent", c.Listen.Agent, resolve))
	warn(warnListen(ctx, "listen.dns", c.Listen.DNS, resolve))
	if _, err := controlGroup(c); err != nil {
		warn(err.Error())
	}
	warn(warnStateDir(c.State.Dir))
	for _, r := range c.Runtimes {
		warn(warnEngine(r))
	}
	return append(all, fleetHostWarnings(c.Fleet, time.Now())...)
}

func warnListen(ctx context.Context, key, address string, resolve resolver) string {
	const patience = 5 * time.Second
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" { // off, or every address
		return ""
	}
	addresses := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, ip)
	} else {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if addresses, err = resolve(ctx, host); err != nil || len(addresses) == 0 {
			return fmt.Sprintf("%s: the name in %q does not resolve: the daemon cannot listen there", key, address)
		}
	}
	for _, ip := range addresses {
		if err = bindable(ip); err == nil {
			return ""
		}
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Sprintf("%s: %q is no address of this host: the daemon cannot listen there", key, address)
	}
	return fmt.Sprintf("%s: the daemon cannot listen on %q: %v", key, address, err)
}

// bindable tries the address with a port of the kernel's choice, and UDP, so that nobody can connect.
func bindable(ip netip.Addr) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// warnEngine warns of a path that is no engine's socket and will not become one. One that is missing may come.
func warnEngine(r configs.Runtime) string {
	endpoint := cmp.Or(r.Endpoint, os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock")
	path, isPath := strings.CutPrefix(endpoint, "unix://")
	info, err := os.Stat(path)
	if !isPath || err != nil || info.Mode().Type() == fs.ModeSocket {
		return ""
	}
	is := "a file"
	if info.IsDir() {
		is = "a directory"
	}
	return fmt.Sprintf("runtime %s: %s is %s, and no socket: the daemon cannot reach the engine there", r.Name, path, is)
}

// warnStateDir warns of a directory that the daemon could not use, if it ran as whoever asks.
func warnStateDir(dir string) string {
	if dir == "" {
		return ""
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warnMissingDir(dir)
	case err != nil:
		return fmt.Sprintf("state.dir: %v", err)
	case !info.IsDir():
		return fmt.Sprintf("state.dir: %s is not a directory", dir)
	}
	return unlessWritable(dir, dir+" is not writable for user %d")
}

// warnMissingDir warns of a directory that the daemon cannot make. Of a parent that is missing, too, as with
// a slip of the pen or a disk that is not mounted.
func warnMissingDir(dir string) string {
	parent := filepath.Dir(filepath.Clean(dir))
	switch info, err := os.Stat(parent); {
	case err != nil:
		return fmt.Sprintf("state.dir: %s does not exist, nor does the directory it is in", dir)
	case !info.IsDir():
		return fmt.Sprintf("state.dir: %s cannot be made: %s is not a directory", dir, parent)
	}
	return unlessWritable(parent, dir+" does not exist, and user %d cannot make it")
}

func unlessWritable(dir, format string) string {
	if unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil {
		return ""
	}
	return "state.dir: " + fmt.Sprintf(format, os.Geteuid())
}
