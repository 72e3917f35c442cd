package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/network"

	"healthd/runtime"
)

// maxShared bounds how many containers are followed to the one whose network
// they share.
const maxShared = 4

// networking is how a container is connected.
type networking struct {
	mode      string
	alive     bool
	startedAt time.Time // of the newest run; zero in a list, which does not tell it
	endpoints map[string]*network.EndpointSettings
	// shared is how the container is connected whose network this one uses; nil
	// when there is none.
	shared   *networking
	sharedID string
	gone     bool // there was one, by an inspection
}

// address returns where the container is reached, and the name of the network
// that the address belongs to. Both are empty where there is none.
func (n networking) address(preferred string) (addr, name string) {
	switch {
	case !n.alive:
		return "", ""
	case n.shared != nil:
		return n.shared.address(preferred)
	case n.mode == "host":
		return "127.0.0.1", "host"
	}
	if a := endpointAddress(n.endpoints[preferred]); a != "" {
		return a, preferred
	}
	for _, name := range slices.Sorted(maps.Keys(n.endpoints)) {
		if a := endpointAddress(n.endpoints[name]); a != "" {
			return a, name
		}
	}
	return "", ""
}

func endpointAddress(s *network.EndpointSettings) string {
	if s == nil {
		return ""
	}
	if s.IPAddress != "" {
		return s.IPAddress
	}
	return s.GlobalIPv6Address
}

// hint is the same for a list and an inspection of an unchanged container.
func hint(state runtime.State, exitCode int, n networking) string {
	switch state {
	case runtime.Exited, runtime.Restarting:
		return fmt.Sprintf("exit %d", exitCode)
	case runtime.Running, runtime.Paused:
		return n.hint()
	}
	return ""
}

func (n networking) hint() string {
	if n.shared != nil {
		return n.sharedID + " " + n.shared.hint()
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(n.endpoints)) {
		if a := endpointAddress(n.endpoints[name]); a != "" {
			fmt.Fprintf(&b, "%s %s ", name, a)
		}
	}
	return b.String()
}
