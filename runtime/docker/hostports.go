package docker

import (
	"encoding/json"
	"strconv"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

const tcp = "tcp"

// inspectedPorts returns the TCP ports that an inspection shows as published.
func inspectedPorts(in *container.NetworkSettings) []runtime.HostPort {
	var ports []runtime.HostPort
	for port, bindings := range in.Ports {
		if port.Proto() != tcp {
			continue
		}
		for _, b := range bindings {
			if hostPort, err := strconv.Atoi(b.HostPort); err == nil {
				ports = append(ports, runtime.HostPortsOf(port.Int(), b.HostIP, hostPort)...)
			}
		}
	}
	return runtime.KeptHostPorts(ports)
}

// listedPorts are the TCP ports that a list shows as published.
type listedPorts []runtime.HostPort

// UnmarshalJSON takes what is no list of ports for none: a container is listed all the same.
func (p *listedPorts) UnmarshalJSON(text []byte) error {
	*p = nil
	if len(text) <= len("null") { // none, for most
		return nil
	}
	var all []struct {
		IP                      string
		PrivatePort, PublicPort int
		Type                    string
	}
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	var ports []runtime.HostPort
	for _, l := range all {
		if l.Type == tcp && l.PublicPort != 0 {
			ports = append(ports, runtime.HostPortsOf(l.PrivatePort, l.IP, l.PublicPort)...)
		}
	}
	*p = runtime.KeptHostPorts(ports)
	return nil
}
