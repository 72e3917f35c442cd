package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Standpoint is where healthd runs, and from where it sees its engines. When healthd runs in a container, it finds that
// among the containers of its engines, and says of each other container whether it is reached from there. An engine that
// does not have healthd's container sees no difference until another one shows it.
type Standpoint struct {
	// ID is that of healthd's own container, as its processes show it; empty: healthd runs in none.
	ID string
	// Sees says whether healthd sees the main process of its own container under the PID that the host
	// counts. It then sees those of others, too.
	Sees func(pid int) bool
	// Enters says why healthd cannot enter network namespaces; nil: it can, as far as its rights go.
	Enters error
	// Has says whether an address is one of this process' own; nil: each is.
	Has func(address string) bool
	// Links returns the networks to which this process has an interface; nil: it has one to each.
	Links func() []netip.Prefix
	// Changed is called when healthd's own container is found, and when its networks change. It must not block.
	Changed func()

	mu sync.Mutex
	// shown is healthd's own container as each engine that has it shows it, the first one first. Two are one and
	// the same by two endpoints, or one of them does not tell the truth: none changes what holds for the other.
	shown  []ownShown
	places map[string]Place // of the engines that have said it, by runtime
}

// ownShown is healthd's own container in one engine.
type ownShown struct {
	runtime   string
	container *Container
	barred    map[string]string // see Vantage
}

// isolator is a Source that tells of a network why its containers may not reach each other; empty: they do, as
// those of other Sources.
type isolator interface {
	Isolates(ctx context.Context, network string) (why string, err error)
}

// placed is a Source whose engine may be elsewhere.
type placed interface {
	// Place says where the engine is. Unsure, it is asked again.
	Place(ctx context.Context) (at Place, sure bool)
}

// Source returns src as healthd sees it from its standpoint.
func (p *Standpoint) Source(runtime string, src Source) Source {
	return &seenSource{Source: src, runtime: runtime, point: p}
}

// Own returns healthd's own container, and nil while no engine has shown it.
func (p *Standpoint) Own() *Container {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shown) == 0 {
		return nil
	}
	return p.shown[0].container
}

// From returns from where containers of a runtime are asked; nil: from the host, as far as is known.
func (p *Standpoint) From(runtime string) *Vantage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from(runtime)
}

// from returns what From does. An engine that has healthd's own container is not elsewhere: they share networks.
func (p *Standpoint) from(runtime string) *Vantage {
	at := p.indexOf(runtime)
	var v *Vantage
	if len(p.shown) == 0 {
		v = p.unplaced()
	} else {
		v = p.fromContainer(at)
	}
	if place := p.places[runtime]; at < 0 && place.Elsewhere != "" {
		if v == nil {
			v = &Vantage{}
		}
		v.Place = place
	}
	return v
}

// fromContainer is from where an engine is seen from healthd's own container, which is among shown. at is the index of what
// that engine shows.
func (p *Standpoint) fromContainer(at int) *Vantage {
	s := p.shown[max(at, 0)]
	own := s.container
	v := &Vantage{Own: own.Name, HostNetwork: own.Network == "host", Blind: !p.Sees(own.Pid)}
	if v.Blind || p.Enters != nil {
		v.CannotEnter = "healthd's own container (" + v.Own + ") needs --pid=host --cap-add SYS_ADMIN --cap-add SYS_PTRACE"
	}
	if at >= 0 {
		v.Barred = s.barred
		for _, n := range own.Networks {
			if s.barred[n.Network] == "" {
				v.Networks = append(v.Networks, n.Network)
			}
		}
	}
	return v
}

// unplaced is from where a healthd asks whose own container no engine shows: another engine may have it, or a proxy hides
// it. It is also that of one beside the engine in a container.
func (p *Standpoint) unplaced() *Vantage {
	if p.ID == "" || p.Links == nil {
		return nil
	}
	links := p.Links()
	if links == nil {
		return nil
	}
	return &Vantage{Links: links}
}

// indexOf returns which of shown is of a runtime; -1: none.
func (p *Standpoint) indexOf(runtime string) int {
	return slices.IndexFunc(p.shown, func(s ownShown) bool { return s.runtime == runtime })
}

// found takes in healthd's own container.
func (p *Standpoint) found(s ownShown) {
	p.mu.Lock()
	before := p.from(s.runtime)
	at := p.indexOf(s.runtime)
	if at >= 0 {
		p.shown[at] = s
	} else {
		p.shown = append(p.shown, s)
	}
	changed := at < 0 || before.fingerprint() != p.from(s.runtime).fingerprint()
	p.mu.Unlock()
	if changed && p.Changed != nil {
		p.Changed()
	}
}

// put takes in where an engine is. What is not sure does not replace what is known.
func (p *Standpoint) put(runtime string, at Place, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.places = make(map[string]Place)
	}
	if _, known := p.places[runtime]; sure || !known {
		p.places[runtime] = at
	}
}

// seenSource is an engine as it is seen from healthd's standpoint.
type seenSource struct {
	Source
	runtime string
	point   *Standpoint

	mu     sync.Mutex
	placed bool // it is known where this connection's engine is
	looked bool // for healthd's own container
}

// look finds where the engine is, once for each connection, and healthd's own container. An engine that does not have
// that is asked again with each list only.
func (s *seenSource) look(ctx context.Context) error {
	s.mu.Lock()
	isPlaced := s.placed
	s.mu.Unlock()
	if e, ok := s.Source.(placed); ok && !isPlaced {
		var at Place
		at, isPlaced = e.Place(ctx)
		s.point.put(s.runtime, at, isPlaced)
	}
	if err := s.findOwn(ctx); err != nil {
		return fmt.Errorf("cannot find healthd's own container: %w", err)
	}
	s.mu.Lock()
	s.placed, s.looked = isPlaced, true
	s.mu.Unlock()
	return nil
}

// findOwn finds healthd's own container, if the engine has it.
func (s *seenSource) findOwn(ctx context.Context) error {
	if s.point.ID == "" {
		return nil
	}
	c, err := s.own(ctx)
	if err == nil {
		var barred map[string]string
		if barred, err = s.barred(ctx, c); err == nil {
			s.point.found(ownShown{s.runtime, c, barred})
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// qualifier is a Source whose IDs say more than those that containers see of themselves.
type qualifier interface {
	IDs(own string) []string
}

// own returns healthd's own container, or an error that wraps ErrNotFound.
func (s *seenSource) own(ctx context.Context) (c *Container, err error) {
	ids := []string{s.point.ID}
	if q, ok := s.Source.(qualifier); ok {
		ids = q.IDs(s.point.ID)
	}
	err = ErrNotFound
	for _, id := range ids {
		if c, err = s.Source.Inspect(ctx, id); err == nil || !errors.Is(err, ErrNotFound) {
			return c, err
		}
	}
	return nil, err
}

// barred returns Vantage.Barred for healthd's own container.
func (s *seenSource) barred(ctx context.Context, own *Container) (map[string]string, error) {
	all := map[string]string{}
	for _, n := range own.Networks {
		if s.point.Has != nil && !s.point.Has(n.Address) {
			// It uses the network of a container that was started again since, and has none any more.
			all[n.Network] = "healthd has lost its address in the network " + n.Network + ": restart its own container (" + own.Name + ")"
			continue
		}
		engine, ok := s.Source.(isolator)
		if !ok {
			continue
		}
		why, err := engine.Isolates(ctx, n.Network)
		if err != nil {
			return nil, err
		}
		if why != "" {
			all[n.Network] = why + ": connect healthd's own container (" + own.Name + ") to another one of its networks, or run healthd with --network=host"
		}
	}
	return all, nil
}

// List looks for healthd's own container first, and so sees changes of its networks.
func (s *seenSource) List(ctx context.Context) ([]Summary, error) {
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	all, err := s.Source.List(ctx)
	if v := s.point.From(s.runtime); v != nil {
		for i := range all {
			all[i].Fingerprint += v.fingerprint()
			all[i].Self = s.point.is(s.runtime, all[i].ID)
		}
	}
	return all, err
}

// Inspect never shows a container before it is known from where it is seen.
func (s *seenSource) Inspect(ctx context.Context, id string) (*Container, error) {
	s.mu.Lock()
	looked := s.looked
	s.mu.Unlock()
	if !looked {
		if err := s.look(ctx); err != nil {
			return nil, err
		}
	}
	v := s.point.From(s.runtime)
	c, err := s.Source.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.seenFrom(v, s.point.is(s.runtime, c.ID)), nil
}

// is says whether the container is healthd's own.
func (p *Standpoint) is(runtime, id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.indexOf(runtime)
	return at >= 0 && id == p.shown[at].container.ID
}

// dependsOn says whether the container is healthd's own, or the one whose network that uses.
func (p *Standpoint) dependsOn(runtime, id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.indexOf(runtime)
	return at >= 0 && (id == p.shown[at].container.ID || id == p.shown[at].container.NetworkOwner)
}

// Subscribe has the networks of healthd's own container looked at when they change.
func (s *seenSource) Subscribe(ctx context.Context, since time.Time) (Stream, error) {
	s.mu.Lock()
	s.placed = false
	s.mu.Unlock()
	stream, err := s.Source.Subscribe(ctx, since)
	if err != nil {
		return nil, err
	}
	return seenStream{stream, s}, nil
}

type seenStream struct {
	Stream
	source *seenSource
}

// Next implements Stream.
func (s seenStream) Next() (Event, error) {
	ev, err := s.Stream.Next()
	// It runs before its engine calls it running. The network of another one ends and begins with that.
	changes := ev.Action == ActionNetwork || ev.Action == ActionStart || ev.Action == ActionDie
	if point := s.source.point; err == nil && changes && point.dependsOn(s.source.runtime, ev.ID) && point.Changed != nil {
		point.Changed()
	}
	return ev, err
}
