package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime/enginetest"
)

var (
	balancerFigures = flag.Bool("balancer-figures", false, "whether TestBalancers measures, for many minutes, and prints a table")
	traefikProgram  = flag.String("traefik", "", "the `program` that is Traefik; empty: TestBalancers runs no way that needs it")
	onlyWays        = flag.String("balancer-ways", "", "the ways that TestBalancers runs, by words that their names have: nginx,caddy; empty: all")
)

// way is a balancer and how it comes to know who is ready. Its texts have words in capitals, see lab.here.
type way struct {
	name    string
	program string
	files   map[string]string // its configuration
	argv    []string          // after the program
	reload  []string          // after the program; nil: there is no such thing
	healthd string            // what healthd's configuration has for it
	within  time.Duration     // what the balancer may need to notice, as healthd's default drain has it
	slow    bool              // too slow for a short test
	first   bool              // it starts without healthd, which may come later
	loses   bool              // requests fail while healthd is away
}

// lab is a way at work: a balancer in front of three replicas.
type lab struct {
	replicaSet
	*way
	dir      string
	url      string
	here     *strings.Replacer
	balancer *enginetest.Process
	row      figures
}

// extent is how much is tried, and at which rates. Counts of a short test say that something is lost, not how seldom.
type extent struct {
	gets, posts   int // a second
	tries, rounds int // of withdrawals, of restarts of all three
	reloads       int
	away          time.Duration // healthd, after a kill
}

var (
	shortLab = extent{gets: 60, posts: 40, tries: 1, rounds: 1, reloads: 3, away: 2 * time.Second}
	longLab  = extent{gets: 200, posts: 100, tries: 10, rounds: 2, reloads: 20, away: 10 * time.Second}
)

// labSpec is a service of Compose whose replicas are asked often.
const labSpec = `
[[spec]]
name  = "NAME"
match = { e2e = "NAME" }
readiness = { http_get = { port = 8080, path = "/ready" }, period = "200ms", timeout = "5s", failure_threshold = 1 }
publish   = { port = 8080 }
`

// Each way loses no request when replicas fail and return, are restarted one after the other, when healthd is killed, and
// when the balancer is reloaded. With -balancer-figures it is measured for longer, one way after the other.
//
//	go test ./e2e -run TestBalancers -v -balancer-ways=nginx
func TestBalancers(t *testing.T) {
	if !*balancerFigures {
		t.Parallel()
	}
	table := &figureTable{}
	t.Cleanup(table.print)
	ran := 0
	for _, w := range traefikWays {
		switch {
		case !w.wanted() || w.slow && !*balancerFigures:
			continue
		case w.program == "traefik" && *traefikProgram == "":
			t.Logf("%s is run by make balancers: it takes Traefik", w.name)
			continue
		}
		ran++
		t.Run(strings.ReplaceAll(w.name, " ", "-"), func(t *testing.T) {
			how := longLab
			if !*balancerFigures {
				t.Parallel()
				how = shortLab
			}
			b := startLab(t, &w)
			b.withdrawals(how)
			b.restarts(how)
			b.healthdDies(how)
			b.reloads(how)
			table.add(b.row)
		})
	}
	if ran == 0 && *onlyWays != "" {
		t.Errorf("no way is called %s", *onlyWays)
	}
}

func (w *way) wanted() bool {
	return slices.ContainsFunc(strings.Split(*onlyWays, ","), func(word string) bool { return strings.Contains(w.name, word) })
}

// startLab starts healthd, the replicas and the balancer, and waits until requests reach all replicas.
func startLab(t *testing.T, w *way) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	name := strings.NewReplacer(" ", "", ",", "").Replace(strings.ToLower(w.name))
	front, dns := freeAddress(t), freeAddress(t)
	b := &lab{way: w, dir: dir, url: "http://" + front, row: figures{way: w}, replicaSet: replicaSet{t: t, e: engines.Engine(t)}}
	b.d = newDaemon(t, b.e.Endpoint, "")
	if *balancerFigures {
		if b.d.path, err = plainProgram(); err != nil {
			t.Fatal(err)
		}
	}
	b.here = strings.NewReplacer("DIR", dir, "FRONTPORT", portOf(front), "FRONT", front, "ADMIN", freeAddress(t), "HEALTHD", strings.TrimPrefix(b.d.url, "http://"),
		"DNSPORT", portOf(dns), "DNS", dns, "NAME", name, "PROGRAM", b.path())
	b.d.rewrite(func(text string) string {
		if strings.Contains(w.healthd, "DNS") {
			text = strings.Replace(text, "[listen]\n", "[listen]\ndns = \"DNS\"\n", 1)
		}
		return b.here.Replace(text + labSpec + strings.ReplaceAll(w.healthd, "dns = DNS", ""))
	})
	for i := 1; i <= 3; i++ {
		b.replicas = append(b.replicas, replica{name: fmt.Sprintf("%s-web-%d", name, i), labels: map[string]string{
			"e2e": name, "com.docker.compose.project": name, "com.docker.compose.service": "web",
		}})
	}
	for file, text := range w.files {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b.here.Replace(text)), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if w.first {
		b.startBalancer()
	}
	b.startAll()
	if !w.first {
		b.startBalancer()
	}
	c := b.load(extent{gets: 60, posts: 40})
	b.d.eventually(30*time.Second, "have the balancer reach all", func() error { return c.reached(b.addresses...) })
	c.finish()
	return b
}

// path is where the balancer's program is.
func (b *lab) path() string {
	b.t.Helper()
	if b.program == "traefik" {
		return *traefikProgram
	}
	return findProgram(b.t, b.program)
}

// command is one of the balancer's own, here.
func (b *lab) command(args []string) []string {
	argv := []string{b.path()}
	for _, arg := range args {
		argv = append(argv, b.here.Replace(arg))
	}
	return argv
}

// startBalancer returns when it listens. It ends with the test.
func (b *lab) startBalancer() {
	b.t.Helper()
	log := filepath.Join(b.dir, "log")
	b.balancer = enginetest.NewProcess(b.name, log, b.command(b.argv)...)
	b.balancer.Env = []string{"XDG_DATA_HOME=" + b.dir, "XDG_CONFIG_HOME=" + b.dir}
	if err := b.balancer.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := b.balancer.Stop(syscall.SIGTERM, 10*time.Second); err != nil {
			b.t.Error(err)
		}
		if text, err := os.ReadFile(log); b.t.Failed() {
			b.t.Logf("log of %s (%v):\n%s", b.name, err, text)
		}
	})
	if err := b.balancer.WaitReady(20*time.Second, b.answers); err != nil {
		b.t.Fatal(err)
	}
}

// answers returns nil when the balancer answers anything.
func (b *lab) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		response.Body.Close()
	}
	return err
}

// clients send GET over kept connections and POST over new ones: whoever closes a kept connection while a request is on
// its way loses it, and clients repeat only GET.
type clients struct{ get, post *load }

func (b *lab) load(how extent) clients {
	const long = 200 * time.Millisecond
	return clients{
		sendLoad(b.t, b.url, traffic{method: http.MethodGet, rate: how.gets, long: long}),
		sendLoad(b.t, b.url, traffic{method: http.MethodPost, rate: how.posts, long: long, once: true}),
	}
}

func (c clients) reached(addresses ...string) error {
	if err := c.get.reached(addresses...); err != nil {
		return err
	}
	return c.post.reached(addresses...)
}

func (c clients) reset() { c.get.resetReplicas(); c.post.resetReplicas() }

func (c clients) finish() { c.get.finish(); c.post.finish() }

// none finishes the clients' requests and returns how many failed. Unless some may, any is an error.
func (b *lab) none(c clients, during string, may bool) lost {
	b.t.Helper()
	c.finish()
	n := lost{c.get.sent, c.get.failed, c.post.sent, c.post.failed}
	b.t.Logf("%s: %v; %v %v", during, n, c.get.failures, c.post.failures)
	if n.gets+n.posts > 0 && !may {
		b.t.Errorf("%s: requests failed: %v", during, n)
	}
	if stalled := c.get.stalled() + c.post.stalled(); stalled > time.Second {
		b.t.Logf("%s: the machine stalled for %v", during, stalled)
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
		b.d.eventually(30*time.Second, "let requests reach all", func() error { return c.reached(b.addresses...) })
		verdict := b.makeUnready(i)
		c.get.until(verdict.Add(b.within + 100*time.Millisecond))
		late := b.requestCount(i).Last.Sub(verdict)
		if most := b.within + c.get.stalled() + c.post.stalled(); late > most {
			b.t.Errorf("a request came %v after the verdict, want at most %v", late, most)
		}
		c.reset()
		b.set(i, "ready=200")
		b.d.until(30*time.Second, b.names[i], "ready", ready)
		b.d.eventually(30*time.Second, "have it taken back", func() error { return c.reached(b.addresses[i]) })
		back := c.get.firstSince(b.addresses[i], b.last(b.names[i], "Ready").Time)
		b.row.out, b.row.in = append(b.row.out, max(late, 0)), append(b.row.in, back)
	}
	b.row.unready = b.none(c, "a replica fails readiness and returns", false)
}

// restarts has each replica restarted as an operator does.
func (b *lab) restarts(how extent) {
	b.t.Helper()
	c := b.load(how)
	for range how.rounds {
		for i, name := range b.names {
			if out, code := b.d.run("restart", name); code != 0 {
				b.t.Fatalf("restart of %s: exit %d: %s", name, code, out)
			}
			b.addresses[i] = b.d.until(30*time.Second, name, "ready again", ready).Address + ":8080"
		}
	}
	c.reset()
	b.d.eventually(30*time.Second, "let requests reach all", func() error { return c.reached(b.addresses...) })
	b.row.restarts = b.none(c, "each replica is restarted", false)
}

// healthdDies kills healthd and starts it again.
func (b *lab) healthdDies(how extent) {
	b.t.Helper()
	for _, name := range b.names {
		b.d.waitForJournal(name)
	}
	c := b.load(how)
	b.d.kill()
	c.get.until(time.Now().Add(how.away))
	b.d.restart()
	c.reset()
	b.d.eventually(30*time.Second, "let requests reach all", func() error { return c.reached(b.addresses...) })
	b.row.dies = b.none(c, "healthd is killed and started again", b.loses)
	if b.loses && b.row.dies.gets+b.row.dies.posts == 0 {
		b.t.Error("no request failed while healthd was away: say so")
	}
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
		ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
		argv := b.command(b.reload)
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			b.t.Fatalf("%v: %v: %s", argv, err, out)
		}
		b.d.eventually(30*time.Second, "let requests reach all", func() error { return c.reached(b.addresses...) })
	}
	b.row.reloads = b.none(c, "the balancer is reloaded", false)
}
