package enginetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const networks = 256

// Network is an engine's bridge and the addresses that are its own, so that the engines of
// several test binaries do not meet: those of the bridge, and as many for further networks.
type Network struct {
	Bridge string
	Prefix string // the first three numbers of each address: "10.213.7"
}

// ClaimNetwork makes a bridge, which RemoveBridge removes. A bridge's name is unique, and stands
// for its addresses: no other test binary can claim the same ones.
func ClaimNetwork() (Network, error) {
	var last error
	for i := range networks {
		number := (os.Getpid() + i) % networks
		n := Network{Bridge: fmt.Sprintf("hdt%d", number), Prefix: fmt.Sprintf("10.213.%d", number)}
		// With an address of its own: else a bridge takes that of a port, and containers would
		// look for their gateway where it was before.
		address := fmt.Sprintf("0a:58:0a:d5:%02x:01", number)
		if last = ip("link", "add", n.Bridge, "address", address, "type", "bridge"); last != nil {
			continue
		}
		err := errors.Join(ip("addr", "add", n.Prefix+".1/25", "dev", n.Bridge), ip("link", "set", n.Bridge, "up"))
		if err != nil {
			return Network{}, errors.Join(err, RemoveBridge(n.Bridge))
		}
		return n, nil
	}
	return Network{}, fmt.Errorf("cannot find a free bridge: %w", last)
}

// Pool returns the addresses for further networks, as dockerd wants it.
func (n Network) Pool() string { return "base=" + n.Prefix + ".128/25,size=28" }

// RemoveBridge removes a bridge, and the interfaces of containers on it: the kernel takes its
// time with those of containers that have ended.
func RemoveBridge(name string) error {
	ports, _ := filepath.Glob(filepath.Join("/sys/class/net", name, "brif", "*"))
	for _, port := range ports {
		_ = ip("link", "del", filepath.Base(port)) // the kernel may be faster
	}
	return ip("link", "del", name)
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
