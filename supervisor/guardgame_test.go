package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

var guardSeeds = newSeeds("guard-", "TestGuardGame", 15, 100)

// TestGuardGame plays random moves on some containers in groups: probes fail and recover,
// containers become ready, end, go and come back, operators hold them, specs and limits
// change, the engine and the daemon are lost, and the fleet grants places and takes them. guardModel knows the rules in
// their simplest form, and checks each restart and everybody who waits. It plays the loop itself and not a world: it looks
// at all state after each message, and hours of probes cost nothing. A failure names its seed:
//
//	go test ./supervisor -run GuardGame -args -guard-seed=17
func TestGuardGame(t *testing.T) { guardSeeds.play(t, playGuardGame) }

func playGuardGame(t *testing.T, seed int) {
	g := &guardGame{t: t, r: rand.New(rand.NewPCG(uint64(seed), 0)), engine: newFakeEngine(), stored: make(map[string]core.Memory)}
	g.guardModel, g.places = newGuardModel(g), newGamePlaces(g)
	g.engine.deliver = func(u runtime.Update) { _ = g.l.send(context.Background(), update(u)) }
	g.limit = core.Guard{MaxRestarts: g.r.IntN(4), Window: 2 * time.Minute}
	g.drawSpecs()
	g.boot()
	for range 2 + g.r.IntN(8) {
		g.create()
	}
	g.settle()
	for move := 0; move < 400 && !t.Failed(); move++ {
		g.doMove()
		g.settle()
		g.checkWaits()
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	g.kill()
}

// guardGame is a host whose loop does not run by itself: each move is handled to its end.
type guardGame struct {
	*guardModel
	t       *testing.T
	r       *rand.Rand
	l       *loop
	end     context.CancelFunc
	engine  *fakeEngine
	stored  map[string]core.Memory
	limit   core.Guard
	specs   map[string]*core.Spec // by container name
	names   int
	present []string // IDs
	lost    bool
	places  *gamePlaces
}

const guardGameNames = 10

// drawSpecs decides who is in which group, and how many of a group may be down.
func (g *guardGame) drawSpecs() {
	g.specs = make(map[string]*core.Spec)
	most := []core.Share{{}, {Number: 1 + g.r.IntN(3)}, {Percent: 1 + g.r.IntN(100)}}
	fleet, wait := g.r.IntN(8), g.r.IntN(8) // of which groups, as bits
	for i := range guardGameNames {
		group := g.r.IntN(3)
		spec := slowReadySpec(core.Group{Name: fmt.Sprint(group), MaxUnavailable: most[group], Fleet: fleet>>group&1 == 1, FleetWait: wait>>group&1 == 1})
		spec.RestartPolicy = core.Always
		spec.Probes[core.Readiness].InitialDelay = time.Duration(6*i) * time.Second // a reload must not end an outage, nor begin it again
		spec.Publish.Drain = time.Duration(g.r.IntN(3)) * 10 * time.Second
		g.specs[fmt.Sprint("n", i)] = spec
	}
}

func (g *guardGame) resolver() Resolver {
	specs := g.specs
	return func(c runtime.Traits) (*core.Spec, error) { return specs[c.Name], nil }
}

// boot starts a daemon with what the last one has stored.
func (g *guardGame) boot() {
	clear(g.waits) // the new daemon begins anew
	g.places.forget()
	s := New(Config{
		Resolve: g.resolver(), Runtimes: map[string]Restarter{"docker": g.engine}, Prober: hangingProber{},
		Journal: journalFunc(g.recorded), Guard: g.limit, Store: g, Memories: readBack(g.t, g.stored), Places: g.places,
	})
	if g.r.IntN(2) == 0 {
		s.sliceSteps = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.l, g.end, g.lost = newLoop(s, &sync.WaitGroup{}, ctx, ctx), cancel, false
	g.l.handle(update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayComplete})
	for _, id := range g.present {
		g.l.handle(update(g.engine.observation(id)))
		if g.r.IntN(2) == 0 {
			g.answer(g.l.entries[id], core.Liveness, refused)
		}
	}
	g.l.handle(update{Kind: runtime.Synced, Runtime: "docker"})
	g.settle()
}

func (g *guardGame) kill() {
	close(g.l.ended)
	g.end()
	g.l.wg.Wait()
}

// Remember, Forget and SetSeen implement Store.
func (g *guardGame) Remember(m *core.Memory) <-chan struct{} {
	g.stored[m.ID] = m.ForFile(stamp())
	return closedChannel
}
func (g *guardGame) Forget(id string)          { delete(g.stored, id) }
func (g *guardGame) SetSeen(string, time.Time) {}

// settle does all that the loop has to do now.
func (g *guardGame) settle() {
	l := g.l
	l.recheckAt = time.Time{} // have it look at all who wait
	for {
		synctest.Wait()
		g.endOutages()
		now := time.Now()
		select {
		case m := <-l.inbox:
			l.handle(m)
			continue
		default:
		}
		first := l.queue.first()
		switch {
		case first != nil && !first.wake.After(now):
			l.stepDue(now)
		case l.guard.placed.Len() > 0 && !now.Before(l.guard.placed.first().outageEnd()):
			l.recheckWaiting(now)
		case l.guard.waiting > 0 && (l.guard.changed() || !now.Before(l.recheckAt)):
			l.recheckWaiting(now)
		case len(l.backlog) > 0:
			l.workOff()
		default:
			return
		}
	}
}

// sleep lets time pass.
func (g *guardGame) sleep(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); g.settle() {
		next := end
		if first := g.l.queue.first(); first != nil {
			next = earlier(next, first.wake)
		}
		time.Sleep(max(time.Until(next), 1))
	}
}

// create creates a container and starts it: a new one, or one that was removed.
func (g *guardGame) create() {
	for _, i := range g.r.Perm(guardGameNames) {
		name := fmt.Sprint("n", i)
		if slices.ContainsFunc(g.present, func(id string) bool { return g.engine.names[id] == name }) {
			continue
		}
		g.names++
		id := fmt.Sprint("c", g.names)
		g.engine.names[id] = name
		g.present = append(g.present, id)
		g.engine.run(id)
		return
	}
}

// answer has a probe of a container end now, if the container runs.
func (g *guardGame) answer(e *entry, probe core.ProbeType, r prober.Result) {
	if e.state.Engine.State == runtime.Running && !e.state.Draining() {
		e.state.Health.Probes[probe].Running = true // as if it had been due
		g.l.handle(&probeAnswer{id: e.container.ID, run: e.state.Run.ID, version: e.probesVersion, probe: probe, result: r})
	}
}
