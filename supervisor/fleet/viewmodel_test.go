package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// modelStore is an etcd in memory: keys below leases, a history, and time that it can miss.
type modelStore struct {
	revision int64
	keys     map[string]record
	history  []record
	compact  int64
	leases   map[int64]int // seconds left
	granted  *int64        // no ID is granted twice, even after a step back
}

func newModelStore() *modelStore {
	return &modelStore{revision: 1, keys: map[string]record{}, leases: map[int64]int{}, granted: new(int64)}
}

func (s *modelStore) grant(ttl int) int64 {
	*s.granted++
	s.leases[*s.granted] = ttl
	return *s.granted
}

func (s *modelStore) put(name, value string, lease int64) {
	s.revision++
	r := record{name: name, value: []byte(value), rev: s.revision, lease: lease}
	s.keys[name] = r
	s.history = append(s.history, r)
}

func (s *modelStore) delete(names ...string) {
	s.revision++
	for _, name := range names {
		delete(s.keys, name)
		s.history = append(s.history, record{name: name, rev: s.revision, deleted: true})
	}
}

// second lets leases run.
func (s *modelStore) second() {
	for lease := range s.leases {
		if s.leases[lease]--; s.leases[lease] > 0 {
			continue
		}
		delete(s.leases, lease)
		var names []string
		for name, r := range s.keys {
			if r.lease == lease {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > 0 {
			s.delete(names...)
		}
	}
}

func (s *modelStore) clone() *modelStore {
	c := *s
	c.keys, c.leases, c.history = maps.Clone(s.keys), maps.Clone(s.leases), slices.Clone(s.history)
	return &c
}

// modelHost publishes some members.
type modelHost struct {
	name     string
	alive    bool
	cut      int // seconds for which it cannot reach the store
	lease    int64
	members  map[string]string // container to state
	revision uint64
	stepped  bool // must write all again
}

func (h *modelHost) keyOf(container string) string {
	return key{kind: memberKey, service: "web", host: h.name, container: container}.String()
}

const modelTTL = 10

// second renews, and writes again what the store has lost.
func (h *modelHost) second(s *modelStore) {
	if h.cut--; !h.alive || h.cut > 0 {
		return
	}
	if s.leases[h.lease] == 0 {
		h.lease, h.stepped = s.grant(modelTTL), true
	}
	s.leases[h.lease] = modelTTL
	hostName := key{kind: hostKey, host: h.name}.String()
	if h.stepped || s.keys[hostName].lease != h.lease {
		s.put(hostName, fmt.Sprintf(`{"instance":"%032x"}`, 1), h.lease)
	}
	for _, c := range slices.Sorted(maps.Keys(h.members)) {
		r, ok := s.keys[h.keyOf(c)]
		if h.stepped || !ok || bodyOf(string(r.value)) != h.body(c) {
			h.revision++
			s.put(h.keyOf(c), withRevision(h.body(c), h.revision), h.lease)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		k, _ := parseKey(name)
		if _, ok := h.members[k.container]; k.kind == memberKey && k.host == h.name && !ok {
			s.delete(name)
		}
	}
	h.stepped = false
}

func (h *modelHost) body(c string) string {
	text, _ := memberRecord([]string{h.name, c, h.members[c]})
	return bodyOf(string(text))
}

// modelGame is a host that watches the store, and what it must never show.
type modelGame struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	store    *modelStore
	snapshot *modelStore
	hosts    []*modelHost
	view     *view
	live     bool
	away     int             // seconds for which the watcher cannot reach the store
	broken   time.Time       // since then
	shown    map[string]bool // on the board
	seen     map[string]bool // host/container that must be shown: its host has been well since it was shown
	log      []string
}

func (g *modelGame) note(format string, args ...any) {
	g.log = append(g.log, fmt.Sprintf("%v ", g.now.Sub(playBegin))+fmt.Sprintf(format, args...))
}

func (g *modelGame) fail(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(g.log[max(0, len(g.log)-15):], "\n"))
}

func (g *modelGame) take(c *changes) {
	for _, r := range c.put {
		g.shown[r.boardID()] = true
	}
	for _, id := range c.gone {
		g.note("removes %s", id)
		if !g.live {
			g.fail("%s left while the connection was down", id)
		}
		if g.seen[id] {
			g.fail("%s left, and its host was well", id)
		}
		delete(g.shown, id)
	}
}

// watch does what the watcher does in a second.
func (g *modelGame) watch() {
	if g.away > 0 {
		if g.live {
			g.live, g.broken = false, g.now
			g.view.broke(g.now)
			g.note("breaks")
		}
		g.take(g.view.tick(g.now))
		return
	}
	lower := g.view.behind(g.store.revision)
	if !g.live {
		g.live = true
		if !lower && g.view.revision >= g.store.compact && g.view.revision > 0 && g.now.Sub(g.broken) < resumeWithin {
			g.note("resumes at %d", g.store.revision)
			g.take(g.view.resume(g.store.revision, g.now))
		} else {
			lower = true
		}
	}
	if lower {
		all := slices.SortedFunc(maps.Values(g.store.keys), func(a, b record) int { return strings.Compare(a.name, b.name) })
		g.note("lists at %d", g.store.revision)
		c, _ := g.view.list(all, g.store.revision, g.now)
		g.take(c)
	}
	if g.view.progress(g.store.revision); g.random.IntN(3) == 0 {
		return // before the events, which come later
	}
	first, _ := slices.BinarySearchFunc(g.store.history, g.view.revision+1, func(r record, rev int64) int { return cmp.Compare(r.rev, rev) })
	g.take(g.view.events(g.store.history[first:], g.store.revision, g.now))
	g.take(g.view.tick(g.now))
}

// happen is what may happen in a second.
func (g *modelGame) happen() {
	h := g.hosts[g.random.IntN(len(g.hosts))]
	container := string(rune('a' + g.random.IntN(4)))
	switch g.random.IntN(60) {
	case 0, 1, 2, 3, 4, 5:
		h.members[container] = []string{stateReady, stateDraining, stateDown}[g.random.IntN(3)]
	case 6, 7:
		delete(h.members, container)
		delete(g.seen, h.name+"/"+container)
	case 8:
		g.note("%s dies", h.name)
		h.alive = false
		g.unwell(h)
	case 9, 10:
		h.alive = true
	case 11:
		h.cut = 1 + g.random.IntN(3*modelTTL)
		g.note("%s is cut for %d s", h.name, h.cut)
		g.unwell(h)
	case 12, 13:
		g.away = 1 + g.random.IntN(40)
		g.note("the watcher is cut for %d s", g.away)
	case 14:
		g.store.compact = g.store.revision
	case 15:
		g.snapshot = g.store.clone()
	case 16:
		g.restore()
	}
}

// restore stops the store and brings it back as it was; leases have their whole time. Hosts notice by the lower revision.
func (g *modelGame) restore() {
	if g.snapshot == nil {
		return
	}
	g.note("the store goes back from %d to %d", g.store.revision, g.snapshot.revision)
	g.store = g.snapshot.clone()
	for lease := range g.store.leases {
		g.store.leases[lease] = modelTTL
	}
	const takes = 1 + int(resumeWithin/time.Second)
	g.away = max(g.away, takes)
	for _, h := range g.hosts {
		h.stepped, h.cut = true, max(h.cut, takes)
	}
}

func (g *modelGame) unwell(h *modelHost) {
	for _, c := range []string{"a", "b", "c", "d"} {
		delete(g.seen, h.name+"/"+c)
	}
}

func (g *modelGame) second() {
	g.now = g.now.Add(time.Second)
	g.away--
	g.store.second()
	for _, h := range g.hosts {
		h.second(g.store)
	}
	g.watch()
	for _, h := range g.hosts {
		for c := range h.members {
			if id := h.name + "/" + c; h.alive && h.cut <= 0 && g.shown[id] {
				g.seen[id] = true
			}
		}
	}
}

// TestViewModel plays random lives of hosts, of a store and of a connection to it.
func TestViewModel(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &modelGame{
				t: t, random: rand.New(rand.NewPCG(seed, 7)), now: playBegin, store: newModelStore(),
				view: newView("h0", modelTTL*time.Second, false), shown: map[string]bool{}, seen: map[string]bool{},
			}
			for _, name := range []string{"h1", "h2", "h3"} {
				g.hosts = append(g.hosts, &modelHost{name: name, alive: true, members: map[string]string{}})
			}
			for range 8 {
				for range 100 {
					g.happen()
					g.second()
				}
				g.away = 0
				for range 3*modelTTL + 40 { // quiet
					g.second()
				}
				g.compare()
			}
		})
	}
}

// compare fails unless what is shown is what the store has.
func (g *modelGame) compare() {
	want := map[string]string{}
	for name, r := range g.store.keys {
		if k, _ := parseKey(name); k.kind == memberKey {
			want[k.host+"/"+k.container] = bodyOf(string(r.value))
		}
	}
	got := map[string]string{}
	for id, s := range g.view.shown {
		text, _ := s.now.encode()
		got[id] = bodyOf(text)
	}
	if !maps.Equal(got, want) {
		g.fail("shown is %v, the store has %v", got, want)
	}
	for _, h := range g.hosts {
		if known := g.view.hosts[h.name]; known != nil && known.state == HostLive != h.alive {
			g.fail("%s is %s", h.name, known.state)
		}
	}
	if len(g.view.absent) > 0 {
		g.fail("%d entries are still absent", len(g.view.absent))
	}
}
