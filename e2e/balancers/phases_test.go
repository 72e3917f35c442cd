package balancers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"time"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
)

// clients send GET over kept connections and POST over new ones: whoever closes a kept connection while a request is on
// its way loses it, and clients repeat only GET.
type clients struct{ get, post *harness.Load }

func (b *lab) load(how extent) clients {
	const long = 200 * time.Millisecond
	return clients{
		harness.SendLoad(b.t, b.url, harness.Traffic{Method: http.MethodGet, Rate: how.gets, Long: long}),
		harness.SendLoad(b.t, b.url, harness.Traffic{Method: http.MethodPost, Rate: how.posts, Long: long, Once: true}),
	}
}

func (c clients) reached(addresses ...string) error {
	if err := c.get.Reached(addresses...); err != nil {
		return err
	}
	return c.post.Reached(addresses...)
}

func (c clients) reset() { c.get.ResetReplicas(); c.post.ResetReplicas() }

func (c clients) finish() { c.get.Finish(); c.post.Finish() }

// none finishes the clients' requests and returns how many failed. Unless some may, any is an error.
func (b *lab) none(c clients, during string, may bool) lost {
	b.t.Helper()
	c.finish()
	n := lost{c.get.Sent, c.get.Failed, c.post.Sent, c.post.Failed, c.get.Slower(tooLate) + c.post.Slower(tooLate)}
	b.t.Logf("%s: %v (stalled for %v)", during, n, c.get.Stalled()+c.post.Stalled())
	cut, failed := c.get.Cut()+c.post.Cut(), n.gets+n.posts
	if failed > 0 {
		b.t.Logf("%s: %v %v", during, c.get.Failures, c.post.Failures)
	}
	if b.cuts {
		failed -= cut
	}
	if failed > 0 && !may {
		b.t.Errorf("%s: %d requests failed", during, failed)
	}
	return n
}

// withdrawals lets replicas fail readiness and return.
func (b *lab) withdrawals(how extent) {
	b.t.Helper()
	c := b.load(how)
	for n := range how.tries {
		i := n % len(b.names)
		c.reset()
		b.d.Eventually("let requests reach all", func() error { return c.reached(b.addresses...) })
		if how.apart {
			c.get.Until(time.Now().Add(rand.N(b.within)))
		}
		verdict := b.makeUnready(i)
		b.d.Eventually("be heard", func() error {
			before := b.requestCount(i).Count
			b.othersAnswer(i, c.get, c.post)
			return harness.AtLeast(0, before-b.requestCount(i).Count)
		})
		b.leftAlone(i, c.get, c.post)
		late := b.requestCount(i).Last.Sub(verdict)
		c.reset()
		b.set(i, "ready=200")
		b.d.Until(b.names[i], "ready", harness.Ready)
		b.d.Eventually("have it taken back", func() error { return c.reached(b.addresses[i]) })
		back := c.get.FirstSince(b.addresses[i], b.last(b.names[i], "Ready").Time)
		b.row.out, b.row.in = append(b.row.out, max(late, 0)), append(b.row.in, back)
	}
	b.row.unready = b.none(c, "a replica fails readiness and returns", false)
}

// restarts has each replica restarted as an operator does.
func (b *lab) restarts(how extent) {
	b.t.Helper()
	c := b.load(how)
	for range how.rounds {
		for i := range b.names {
			b.restart(i)
		}
	}
	c.reset()
	b.d.Eventually("let requests reach all", func() error { return c.reached(b.addresses...) })
	b.row.restarts = b.none(c, "each replica is restarted", false)
}

// healthdDies kills healthd and starts it again, and has a replica restarted as soon as it is back.
func (b *lab) healthdDies(how extent) {
	b.t.Helper()
	for _, name := range b.names {
		b.d.WaitForJournal(name)
	}
	c := b.load(how)
	b.d.Kill()
	c.get.Until(time.Now().Add(how.away))
	b.d.Restart()
	b.row.dies = b.none(c, "healthd is killed and started again", b.loses)
	if b.loses && b.row.dies.gets+b.row.dies.posts == 0 {
		b.t.Error("no request failed while healthd was away: say so")
	}
	c = b.load(how)
	b.restart(0)
	c.reset()
	b.d.Eventually("let requests reach all", func() error { return c.reached(b.addresses...) })
	b.row.back = b.none(c, "a replica is restarted as soon as healthd is back", b.seldom)
}

// restart restarts a replica and returns when it is ready again.
func (b *lab) restart(i int) {
	b.t.Helper()
	if out, code := b.d.Run("restart", b.names[i]); code != 0 {
		b.t.Fatalf("restart of %s: exit %d: %s", b.names[i], code, out)
	}
	b.addresses[i] = b.d.Until(b.names[i], "ready again", harness.Ready).Address + ":8080"
}

// reloads reloads the balancer, as an operator does who changed something else.
func (b *lab) reloads(how extent) {
	b.t.Helper()
	if b.reload == nil {
		return
	}
	c := b.load(how)
	for range how.reloads {
		c.reset()
		if b.before != nil {
			if err := b.before(b); err != nil {
				b.t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), patience.Limit)
		argv := b.command(b.reload)
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			b.t.Fatalf("%v: %v: %s", argv, err, out)
		}
		b.d.Eventually("let requests reach all", func() error { return c.reached(b.addresses...) })
	}
	b.row.reloads = b.none(c, "the balancer is reloaded", false)
}
