package dockertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const networks = 256

// network is an engine's bridge and the addresses that are its own, so that the
// engines of several test binaries do not meet.
type network struct {
	bridge string
	pool   string
}

// claimNetwork makes a bridge. A bridge's name is unique, and stands for its addresses: no
// other test binary can claim the same ones.
func claimNetwork() (network, error) {
	var last error
	for i := range networks {
		n := (os.Getpid() + i) % networks
		net := network{
			bridge: fmt.Sprintf("hdt%d", n),
			pool:   fmt.Sprintf("base=10.213.%d.128/25,size=28", n),
		}
		if last = ip("link", "add", net.bridge, "type", "bridge"); last != nil {
			continue
		}
		err := errors.Join(
			ip("addr", "add", fmt.Sprintf("10.213.%d.1/25", n), "dev", net.bridge),
			ip("link", "set", net.bridge, "up"),
		)
		if err != nil {
			return network{}, errors.Join(err, net.remove())
		}
		return net, nil
	}
	return network{}, fmt.Errorf("cannot find a free bridge: %w", last)
}

func (n network) remove() error { return ip("link", "del", n.bridge) }

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
