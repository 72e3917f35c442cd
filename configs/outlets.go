package configs

import (
	"slices"
	"time"

	"healthd/supervisor/core"
)

const (
	// What these need at worst from a withdrawal to their last new request, measured: docs/balancers.md.
	defaultDNSDrain     = 3 * time.Second         // nginx with valid=1s; Caddy with refresh 1s
	defaultTraefikDrain = 7500 * time.Millisecond // pollInterval 5s, providersThrottleDuration 2s

	longestOutletDrain = 10 * time.Minute
)

// outlet is a way in which load balancers learn who is ready, and which HAProxy's sockets are not.
type outlet struct {
	covers func(service string) bool
	drain  time.Duration // what its balancers need at worst until their last new request
	shown  core.Value    // the drain of a spec that this makes longer
	within time.Duration // what they may need until they know; 0: they ask
	// notHAProxy says that the drain is not for a container with a backend: on whichever host HAProxy is, it says
	// itself when it has no request under way.
	notHAProxy bool
}

func newOutlet(name string, at place, covers func(service string) bool, drain, within time.Duration) *outlet {
	return &outlet{covers: covers, drain: drain, shown: shownDrain(drain, name+" at "+at.String()), within: within}
}

func shownDrain(drain time.Duration, origin string) core.Value {
	return core.Value{Path: "publish.drain", Value: showDuration(drain), Origin: origin}
}

// ExpectsTraefik says whether drains last as long as Traefik's HTTP provider needs.
func (c *Config) ExpectsTraefik() bool { return c.traefik }

func anyService(string) bool { return true }

// readAskers reads what the drains of all services wait for: those who ask healthd.
func (c *Config) readAskers(section func(string) *table, sections map[string]*node) {
	c.dnsDrain = readOutletDrain(section("dns"), defaultDNSDrain)
	if c.Listen.DNS != "" {
		c.outlets = append(c.outlets, newOutlet("listen.dns", sections["listen"].below("dns").at, anyService, c.dnsDrain, 0))
	}
	if traefik := sections["traefik"]; traefik != nil {
		c.traefik = true
		c.outlets = append(c.outlets, newOutlet("[traefik]", traefik.at, anyService, readOutletDrain(section("traefik"), defaultTraefikDrain), 0))
	}
	if c.Fleet != nil {
		c.outlets = append(c.outlets, c.Fleet.outlet())
	}
}

// KeepDrains has drains wait for those who ask by DNS, too, if the daemon began with that and c is without: it answers them
// until it ends. For other hosts they wait as the daemon began: it tells these as long, and nobody else. Call it before
// Resolve.
func (c *Config) KeepDrains(begun *Config) {
	c.keepFleet(begun.Fleet)
	if c.Listen.DNS != "" || begun.Listen.DNS == "" {
		return
	}
	drain := max(begun.dnsDrain, c.dnsDrain)
	c.outlets = append(c.outlets, &outlet{covers: anyService, drain: drain, shown: shownDrain(drain, "listen.dns before the reload")})
}

// keepFleet has drains wait for other hosts as in the fleet that the daemon began with; nil: in none.
func (c *Config) keepFleet(begun *Fleet) {
	if len(c.Fleet.fleetNeedsRestart(begun)) == 0 {
		return
	}
	c.outlets = slices.DeleteFunc(c.outlets, func(o *outlet) bool { return o.notHAProxy })
	if begun != nil {
		o := begun.outlet()
		o.shown = shownDrain(o.drain, "[fleet] before the reload")
		c.outlets = append(c.outlets, o)
	}
}

// readOutletDrain reads the drain that the balancers of a section need.
func readOutletDrain(t *table, otherwise time.Duration) time.Duration {
	d := t.duration("drain", otherwise, span[time.Duration]{0, longestOutletDrain})
	t.done()
	return d
}

// drainForOutlets has the drain of a container that takes traffic last as long as the outlets of its service need, unless a
// setting says how long it is.
func (c *Config) drainForOutlets(spec *core.Spec, drainSet bool) {
	p := &spec.Publish
	if p.Port == 0 {
		return
	}
	longest, least := &outlet{}, time.Duration(0)
	for _, o := range c.outlets {
		if !o.covers(p.Service) {
			continue
		}
		p.WithdrawWithin = max(p.WithdrawWithin, o.within)
		if !o.notHAProxy {
			least = max(least, o.drain)
		}
		if o.drain > longest.drain && (!o.notHAProxy || p.HAProxy.Backend == "") {
			longest = o
		}
	}
	if longest.drain > p.Drain && !drainSet {
		p.Drain, spec.DrainValue = longest.drain, &longest.shown
	}
	p.LeastDrain = min(least, p.Drain)
}

// warnDrain warns of a drain that a spec sets and that ends while load balancers may still send new requests.
func (c *Config) warnDrain(s *fileSpec) []warning {
	if s.node.below("publish.drain") == nil {
		return nil
	}
	set := s.read()
	settled := *set
	c.drainForOutlets(&settled, false)
	if settled.DrainValue == nil {
		return nil
	}
	return told(warning{"publish.drain", "is " + bareDuration(set.Publish.Drain) + ": load balancers may send requests to a stopped container: " +
		settled.DrainValue.Origin + " needs " + bareDuration(settled.Publish.Drain)})
}
