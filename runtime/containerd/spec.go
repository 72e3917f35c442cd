package containerd

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/opencontainers/runtime-spec/specs-go"

	"healthd/runtime"
)

// spec is what healthd needs of a container's OCI specification.
type spec struct {
	sum         uint64 // of its text
	env         []string
	process     *specs.Process // of the main process; nil when it could not be read
	hostNetwork bool
	// joinsNetwork says that its network is that of a process when it was made.
	joinsNetwork bool
	resources    string
}

// specCache keeps the specifications: each has some kilobytes of JSON, and hardly ever changes.
type specCache struct {
	mu  sync.Mutex
	all map[key]*spec
}

var specSeed = maphash.MakeSeed()

// read returns the container's specification. One that cannot be read is empty.
func (s *specCache) read(k key, c *containers.Container) *spec {
	var text []byte
	if c.Spec != nil {
		text = c.Spec.GetValue()
	}
	sum := maphash.Bytes(specSeed, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[k]; known != nil && known.sum == sum {
		return known
	}
	read := parseSpec(text)
	read.sum = sum
	if s.all == nil {
		s.all = map[key]*spec{}
	}
	s.all[k] = read
	return read
}

func (s *specCache) drop(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, k)
}

// dropOthers forgets the containers that a list does not have.
func (s *specCache) dropOthers(listed func(key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.all {
		if !listed(k) {
			delete(s.all, k)
		}
	}
}

func parseSpec(text []byte) *spec {
	var oci specs.Spec
	if json.Unmarshal(text, &oci) != nil {
		return &spec{}
	}
	s := &spec{process: oci.Process}
	if oci.Process != nil {
		s.env = runtime.SharedAll(oci.Process.Env)
	}
	if oci.Linux != nil {
		s.hostNetwork = true
		for _, n := range oci.Linux.Namespaces {
			if n.Type == specs.NetworkNamespace {
				s.hostNetwork, s.joinsNetwork = false, strings.HasPrefix(n.Path, "/proc/")
			}
		}
		s.resources = resources(oci.Linux.Resources)
	}
	return s
}

// resources lists the limits that are set.
func resources(r *specs.LinuxResources) string {
	if r == nil {
		return ""
	}
	var set []string
	number := func(name string, n *int64) {
		if n != nil && *n > 0 {
			set = append(set, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	positive := func(name string, n *uint64) {
		if n != nil && *n > 0 {
			set = append(set, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	if m := r.Memory; m != nil {
		number("memory", m.Limit)
		number("memory-swap", m.Swap)
		number("memory-reservation", m.Reservation)
	}
	if c := r.CPU; c != nil {
		number("cpu-quota", c.Quota)
		positive("cpu-period", c.Period)
		positive("cpu-shares", c.Shares)
		for name, value := range map[string]string{"cpuset-cpus": c.Cpus, "cpuset-mems": c.Mems} {
			if value != "" {
				set = append(set, name+"="+value)
			}
		}
	}
	if r.Pids != nil {
		number("pids", r.Pids.Limit)
	}
	slices.Sort(set)
	return strings.Join(set, " ")
}
