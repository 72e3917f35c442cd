package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// guardMoves are what may happen, with the weight of each.
var guardMoves = []weighted[func(*guardGame, *entry)]{
	{30, "fails", func(g *guardGame, e *entry) { g.answer(e, core.Liveness, refused) }},
	{8, "succeeds", func(g *guardGame, e *entry) { g.answer(e, core.Liveness, success) }},
	{20, "is ready", func(g *guardGame, e *entry) { g.answer(e, core.Readiness, success) }},
	{5, "is not ready", func(g *guardGame, e *entry) { g.answer(e, core.Readiness, refused) }},
	{4, "crashes", (*guardGame).crash},
	{3, "is held", (*guardGame).hold},
	{3, "is resumed", func(g *guardGame, e *entry) {
		g.request(e, func(l *loop, e *entry) error { l.step(e, &core.Input{Kind: core.ResumeRequested}); return nil })
	}},
	{3, "is removed", (*guardGame).removeContainer},
	{4, "another one is created", func(g *guardGame, _ *entry) { g.create() }},
	{3, "is restarted by an operator", func(g *guardGame, e *entry) { g.request(e, (*loop).restart) }},
	{2, "reload", (*guardGame).reload},
	{1, "the engine is lost or back", (*guardGame).loseEngine},
	{2, "the daemon is killed", (*guardGame).restartDaemon},
	{20, "the fleet does something", func(g *guardGame, e *entry) { g.places.play(e) }},
	{30, "time passes", (*guardGame).passTime},
}

func (g *guardGame) doMove() {
	if len(g.present) == 0 {
		g.create()
		return
	}
	e := g.l.entries[g.present[g.r.IntN(len(g.present))]]
	move := draw(g.r, guardMoves)
	if guardSeeds.one() {
		g.t.Logf("%v %s (group %s): %s", time.Since(g.startedAt), e.container.Name, e.group, move.name)
	}
	move.do(g, e)
}

func (g *guardGame) request(e *entry, do func(*loop, *entry) error) {
	g.l.handle(request{id: e.container.ID, do: do, reply: make(chan error, 1)})
}

func (g *guardGame) crash(e *entry) {
	if e.state.Engine.State.Alive() {
		g.engine.exit(e.container.ID, 1)
	}
}

func (g *guardGame) hold(e *entry) {
	var until time.Time
	if g.r.IntN(2) == 0 {
		until = time.Now().Add(time.Duration(1+g.r.IntN(60)) * time.Second)
	}
	g.request(e, func(l *loop, e *entry) error {
		l.step(e, &core.Input{Kind: core.HoldRequested, Time: until})
		return nil
	})
}

func (g *guardGame) removeContainer(e *entry) {
	id := e.container.ID
	g.present = slices.DeleteFunc(g.present, func(other string) bool { return other == id })
	g.engine.delete(id)
	g.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
}

// reload changes the groups, what they allow, and the budget.
func (g *guardGame) reload(*entry) {
	g.drawSpecs()
	if g.limit.MaxRestarts > 0 && g.r.IntN(2) == 0 {
		g.limit.MaxRestarts = 1 + g.r.IntN(4)
	}
	go func() { _ = g.l.Reload(context.Background(), g.resolver(), g.limit) }()
}

func (g *guardGame) loseEngine(*entry) {
	if g.lost = !g.lost; g.lost {
		g.l.handle(update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
		return
	}
	g.l.handle(update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayComplete})
	for _, id := range g.present {
		g.l.handle(update(g.engine.observation(id)))
	}
	g.l.handle(update{Kind: runtime.Synced, Runtime: "docker"})
}

func (g *guardGame) restartDaemon(*entry) {
	g.kill()
	g.boot()
}

// passTime lets a moment pass, or up to half an hour.
func (g *guardGame) passTime(*entry) {
	most := []time.Duration{time.Second, 10 * time.Second, time.Minute, 30 * time.Minute}[g.r.IntN(4)]
	g.sleep(time.Duration(1 + g.r.Int64N(int64(most))))
}
