package runtime

import (
	"net/netip"
	"testing"
)

func TestAdvertised(t *testing.T) {
	at := func(port int, ip string, hostPort int) HostPort {
		return HostPort{Port: port, IP: netip.MustParseAddr(ip), HostPort: hostPort}
	}
	ports := func(all ...HostPort) Container {
		return Container{State: Running, Address: "172.17.0.2", Network: "bridge", HostPorts: KeptHostPorts(all)}
	}
	own := func(address string) Container {
		return Container{State: Paused, Address: address, Network: "overlay"}
	}
	onHost := Container{State: Running, Address: "127.0.0.1", Network: "host", HostNetwork: true}
	const (
		none     = `port 80 is not published on the host: publish it, or set publish.address = "container"`
		loopback = "port 80 is published on the host at 127.0.0.1 only, where other hosts do not reach it: publish it at 10.0.0.5"
	)
	for _, tt := range []struct {
		name      string
		c         Container
		own       bool
		advertise string
		want, why string
	}{
		{"everywhere", ports(at(80, "0.0.0.0", 8080), at(80, "::", 8080)), false, "10.0.0.5", "10.0.0.5:8080", ""},
		{"everywhere, v6", ports(at(80, "0.0.0.0", 8080), at(80, "::", 8081)), false, "fd00::5", "[fd00::5]:8081", ""},
		{"at advertise", ports(at(80, "10.0.0.5", 32768)), false, "10.0.0.5", "10.0.0.5:32768", ""},
		{"advertise comes first", ports(at(80, "0.0.0.0", 8080), at(80, "10.0.0.5", 32768), at(80, "192.0.2.1", 1)), false, "10.0.0.5", "10.0.0.5:32768", ""},
		{"everywhere comes before another address", ports(at(80, "10.0.0.4", 1), at(80, "0.0.0.0", 8080)), false, "10.0.0.5", "10.0.0.5:8080", ""},
		{"advertise written in v6", ports(at(80, "10.0.0.5", 32768)), false, "::ffff:10.0.0.5", "10.0.0.5:32768", ""},
		{"twice, the first", ports(at(80, "0.0.0.0", 9000), at(80, "0.0.0.0", 8080)), false, "10.0.0.5", "10.0.0.5:8080", ""},
		{"another port", ports(at(81, "0.0.0.0", 8081)), false, "10.0.0.5", "", none},
		{"not published", ports(), false, "10.0.0.5", "", none},
		{"another address", ports(at(80, "192.0.2.7", 8080)), false, "10.0.0.5", "192.0.2.7:8080", ""},
		{"another address of two", ports(at(80, "192.0.2.7", 8080), at(80, "127.0.0.1", 1)), false, "10.0.0.5", "192.0.2.7:8080", ""},
		{"loopback", ports(at(80, "127.0.0.1", 8080)), false, "10.0.0.5", "", loopback},
		{"loopback, v6", ports(at(80, "::1", 8080)), false, "10.0.0.5", "",
			"port 80 is published on the host at ::1 only, where other hosts do not reach it: publish it at 10.0.0.5"},
		{"link-local", ports(at(80, "fe80::1", 8080)), false, "10.0.0.5", "",
			"port 80 is published on the host at fe80::1 only, where other hosts do not reach it: publish it at 10.0.0.5"},
		{"the other family", ports(at(80, "0.0.0.0", 8080)), false, "fd00::5", "",
			"port 80 is published on the host at 0.0.0.0 only, where other hosts do not reach it: publish it at fd00::5"},
		{"advertise is loopback", ports(at(80, "127.0.0.1", 8080)), false, "127.0.0.1", "127.0.0.1:8080", ""}, // a warning says what comes of it
		{"no advertise", ports(at(80, "0.0.0.0", 8080)), false, "", "", "other hosts are told no address of this host: set fleet.advertise"},
		{"host's network", onHost, false, "10.0.0.5", "10.0.0.5:80", ""},
		{"host's network, container's address", onHost, true, "10.0.0.5", "10.0.0.5:80", ""},
		{"host's network, no advertise", onHost, true, "", "", "other hosts are told no address of this host: set fleet.advertise"},
		{"container", own("10.1.0.2"), true, "10.0.0.5", "10.1.0.2:80", ""},
		{"container, v6", own("fd00::2"), true, "10.0.0.5", "[fd00::2]:80", ""},
		{"container, no advertise", own("10.1.0.2"), true, "", "10.1.0.2:80", ""},
		{"container without address", own(""), true, "10.0.0.5", "", "it has no address of its own"},
		{"container at loopback", own("127.0.0.1"), true, "10.0.0.5", "", "its address 127.0.0.1 is one of its own host only"},
		{"not running", Container{State: Exited}, false, "10.0.0.5", "", "it does not run"},
		{"container, published too", ports(at(80, "0.0.0.0", 8080)), true, "10.0.0.5", "172.17.0.2:80", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var advertise netip.Addr
			if tt.advertise != "" {
				advertise = netip.MustParseAddr(tt.advertise)
			}
			addr, port, why := tt.c.Advertised(80, tt.own, advertise)
			got := ""
			if addr.IsValid() {
				got = netip.AddrPortFrom(addr, uint16(port)).String()
			}
			if got != tt.want || why != tt.why || (port != 0) != addr.IsValid() {
				t.Errorf("got %s, %d, %q, want %s, %q", got, port, why, tt.want, tt.why)
			}
		})
	}
	c := ports(at(80, "0.0.0.0", 8080))
	if addr, port, why := c.Advertised(0, false, netip.MustParseAddr("10.0.0.5")); addr.IsValid() || port != 0 || why != "it has no publish.port" {
		t.Errorf("got %v:%d, %q without a port", addr, port, why)
	}
}

// Of a container whose engine is elsewhere no one is told its own address: another one may have that here.
func TestEngineElsewhere(t *testing.T) {
	at := func(ip string, hostPort int) HostPort {
		return HostPort{Port: 80, IP: netip.MustParseAddr(ip), HostPort: hostPort}
	}
	seen := func(elsewhere, engine string, host bool, ports ...HostPort) Container {
		place := Place{Elsewhere: elsewhere}
		place.At, _ = netip.ParseAddr(engine)
		return Container{
			State: Running, Address: "172.17.0.2", HostNetwork: host, HostPorts: KeptHostPorts(ports), From: &Vantage{Place: place},
		}
	}
	here := seen("", "", false, at("0.0.0.0", 8080))
	podman := seen("rootless", "127.0.0.1", true)
	podman.Address, podman.From.SameHostNetwork = "127.0.0.1", true
	pasta := seen("rootless", "127.0.0.1", false, at("0.0.0.0", 8080))
	pasta.Address, pasta.From.SameHostNetwork = "", true
	const rootless, remote, netns = "rootless", "remote", "another namespace"
	const localhost, far = "127.0.0.1", "192.0.2.7"
	for _, tt := range []struct {
		name          string
		c             Container
		own           bool
		local, others string // where this host reaches it, and others
		why           string
	}{
		{"here", here, false, "172.17.0.2:80", "10.0.0.5:8080", ""},
		{"here, own address", here, true, "172.17.0.2:80", "172.17.0.2:80", ""},
		{"rootless, published", seen(rootless, localhost, false, at("0.0.0.0", 8080)), false, "127.0.0.1:8080", "10.0.0.5:8080", ""},
		{"rootless, published for this host", seen(rootless, localhost, false, at("127.0.0.1", 8080)), false, "127.0.0.1:8080", "", ""},
		{"rootless, published at another address", seen(rootless, localhost, false, at("10.0.0.6", 8080)), false, "10.0.0.6:8080", "10.0.0.6:8080", ""},
		{"rootless, own address", seen(rootless, localhost, false, at("0.0.0.0", 8080)), true, "", "", rootless},
		{"rootless, not published", seen(rootless, localhost, false), false, "", "", "rootless, which does not publish port 80: publish it"},
		{"rootless, its host's network", seen(rootless, localhost, true), false, "", "", "it uses its engine's network, and rootless"},
		{"rootless Podman, its host's network, which is healthd's", podman, false, "127.0.0.1:80", "10.0.0.5:80", ""},
		{"rootless Podman, published, without an address that it tells", pasta, false, "127.0.0.1:8080", "10.0.0.5:8080", ""},
		{"remote, published", seen(remote, far, false, at("0.0.0.0", 8080)), false, "192.0.2.7:8080", "192.0.2.7:8080", ""},
		{"remote, published at its loopback", seen(remote, far, false, at("127.0.0.1", 8080)), false, "", "",
			"port 80 is published on the host at 127.0.0.1 only, where other hosts do not reach it: publish it at 192.0.2.7"},
		{"remote, its host's network", seen(remote, far, true), false, "192.0.2.7:80", "192.0.2.7:80", ""},
		{"remote, own address", seen(remote, far, false, at("0.0.0.0", 8080)), true, "", "", remote},
		{"remote, of an unknown address", seen(remote, "", false, at("0.0.0.0", 8080)), false, "", "", remote},
		{"in another namespace", seen(netns, "", false, at("0.0.0.0", 8080)), false, "", "", netns},
	} {
		address, port, why := tt.c.Local(80, tt.own)
		local := ""
		if address != "" {
			local = netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String()
		}
		if local != tt.local || why != tt.why {
			t.Errorf("%s: this host reaches it at %q (%q), want %q (%q)", tt.name, local, why, tt.local, tt.why)
		}
		others := ""
		if addr, port, _ := tt.c.Advertised(80, tt.own, netip.MustParseAddr("10.0.0.5")); addr.IsValid() {
			others = netip.AddrPortFrom(addr, uint16(port)).String()
		}
		if others != tt.others {
			t.Errorf("%s: others reach it at %q, want %q", tt.name, others, tt.others)
		}
	}
	without := seen(rootless, localhost, false, at("0.0.0.0", 8080))
	if address, port, why := without.Local(0, false); address != "" || port != 0 || why != "rootless, and it has no publish.port" {
		t.Errorf("without publish.port: %q %d %q", address, port, why)
	}
}
