package configs

import (
	"reflect"
	"slices"
)

// NeedsRestart returns the keys in which next differs from c and which a running
// daemon cannot take over: it opens engines, listeners, files, its log, HAProxy's
// sockets and etcd once. It can take over specs, the guard, receivers of notifications, published files, and daemon.mode.
func (c *Config) NeedsRestart(next *Config) []string {
	var keys []string
	for _, setting := range []struct {
		key  string
		same bool
	}{
		{"runtime", reflect.DeepEqual(c.Runtimes, next.Runtimes)},
		{"listen.http", c.Listen.HTTP == next.Listen.HTTP},
		{"listen.agent", c.Listen.Agent == next.Listen.Agent},
		{"listen.dns", c.Listen.DNS == next.Listen.DNS},
		{"listen.hosts", slices.Equal(c.Listen.Hosts, next.Listen.Hosts)},
		{"listen.control_group", c.Listen.ControlGroup == next.Listen.ControlGroup},
		{"listen.control", c.Listen.Control == next.Listen.Control},
		{"state.dir", c.State.Dir == next.State.Dir},
		{"daemon.shutdown", c.Daemon.Shutdown == next.Daemon.Shutdown},
		{"log.level", c.Log.Level == next.Log.Level},
		{"log.format", c.Log.Format == next.Log.Format},
		{"haproxy.checks_from", slices.Equal(c.HAProxy.ChecksFrom, next.HAProxy.ChecksFrom)},
		{"haproxy.sockets", slices.Equal(c.HAProxy.Sockets, next.HAProxy.Sockets)},
	} {
		if !setting.same {
			keys = append(keys, setting.key)
		}
	}
	return append(keys, c.Fleet.fleetNeedsRestart(next.Fleet)...)
}
