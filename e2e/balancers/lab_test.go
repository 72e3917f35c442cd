package balancers

import (
	"healthd/e2e/ports"

	"healthd/e2e/patience"

	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/enginetest"
)

var (
	balancerFigures = flag.Bool("balancer-figures", false, "whether TestBalancers measures, for many minutes, and prints a table")
	traefikProgram  = flag.String("traefik", "", "the `program` that is Traefik; empty: TestBalancers runs no way that needs it")
)

// way is a balancer and how it comes to know who is ready. Its texts have words in capitals, see lab.here.
type way struct {
	name      string
	program   string
	files     map[string]string // its configuration
	argv      []string
	reload    []string         // nil: there is no such thing
	before    func(*lab) error // a reload
	healthd   string           // what healthd's configuration has for it
	within    time.Duration    // what the balancer may need to notice, as healthd's default drain has it
	slow      bool             // too slow for a short test
	seldom    bool             // it asks seldom after an outage of healthd: a restart then loses requests
	published string           // the file that healthd writes, if the balancer does not start without it
	cuts      bool             // its reload resets new connections that it has not accepted yet, whatever healthd does
	loses     bool             // requests fail while healthd is away
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

// extent is how much is tried, and at which rates: with twice as many GET as POST, three servers in turn would give one of them all
// POST. Counts of a short test say that something is lost, not how seldom.
type extent struct {
	gets, posts   int  // a second
	tries, rounds int  // of withdrawals, of restarts of all three
	apart         bool // tries come at any moment of what the balancer does every now and then
	reloads       int
	away          time.Duration // healthd, after a kill
}

var (
	shortLab = extent{gets: 60, posts: 40, tries: 1, rounds: 1, reloads: 3, away: 2 * time.Second}
	longLab  = extent{gets: 190, posts: 110, tries: 10, apart: true, rounds: 2, reloads: 20, away: 10 * time.Second}
)

// labSpec is a service of Compose whose replicas are asked often.
const labSpec = `
[[spec]]
name  = "NAME"
match = { e2e = "NAME" }
readiness = { http_get = { port = 8080, path = "/ready" }, period = "200ms", timeout = "30s", failure_threshold = 1 }
publish   = { port = 8080 }
`

const listenDNS = "[listen]\ndns = \"DNS\"\n"

// publishedFile has healthd write a file in the balancer's directory, and reload the balancer.
func publishedFile(template, path string, reload ...string) string {
	text := fmt.Sprintf("[[publish_file]]\ntemplate = %q\npath = \"DIR/%s\"\n", template, path)
	if len(reload) > 0 {
		text += fmt.Sprintf("reload = [\"%s\"]\n", strings.Join(reload, `", "`))
	}
	return text
}

// Each way loses no request when replicas fail and return, are restarted one after the other, when healthd is killed, and
// when the balancer is reloaded. With -balancer-figures it is measured for longer, one way after the other.
//
//	go test ./e2e/balancers -run TestBalancers/nginx -v
func TestBalancers(t *testing.T) {
	if !*balancerFigures {
		t.Parallel()
	}
	table := &figureTable{}
	t.Cleanup(table.print)
	for _, w := range slices.Concat(nginxWays, caddyWays, haproxyWays, traefikWays) {
		switch {
		case w.slow && !*balancerFigures:
			continue
		case w.program == "traefik" && *traefikProgram == "":
			t.Logf("%s is run by make balancers: it takes Traefik", w.name)
			continue
		}
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
}

// startLab starts healthd, the replicas and the balancer, and waits until requests reach all replicas.
func startLab(t *testing.T, w *way) *lab {
	t.Helper()
	b := newLab(t, w)
	if w.published == "" {
		b.startBalancer() // healthd may come later
	}
	b.startAll()
	if w.published != "" {
		b.d.Eventually("write the file without which the balancer does not start", b.written)
		b.startBalancer()
	}
	c := b.load(shortLab)
	b.d.Eventually("have the balancer reach all", func() error { return c.reached(b.addresses...) })
	c.finish()
	return b
}

// newLab writes all configurations.
func newLab(t *testing.T, w *way) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-lab") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	name := strings.NewReplacer(" ", "", ",", "").Replace(strings.ToLower(w.name))
	front := ports.Address(t)
	b := &lab{way: w, dir: dir, url: "http://" + front, row: figures{way: w}, replicaSet: replicaSet{t: t, e: harness.Docker.Engine(t)}}
	b.d = harness.NewDaemon(t, b.e.Endpoint, "")
	if *balancerFigures {
		if b.d.Path, err = harness.PlainProgram(); err != nil {
			t.Fatal(err)
		}
	}
	b.here = strings.NewReplacer("DIR", dir, "FRONTPORT", harness.PortOf(front), "FRONT", front, "ADMIN", ports.Address(t), "HEALTHD", strings.TrimPrefix(b.d.URL, "http://"),
		"DNS", ports.Address(t), "NAME", name, "PROGRAM", b.path())
	b.d.Rewrite(func(text string) string {
		if w.healthd == listenDNS {
			return b.here.Replace(strings.Replace(text, "[listen]\n", w.healthd, 1) + labSpec)
		}
		return b.here.Replace(text + labSpec + w.healthd)
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
	return b
}

// written returns nil when the file that healthd writes has all replicas.
func (b *lab) written() error {
	text, err := os.ReadFile(b.here.Replace(b.published))
	for _, address := range b.addresses {
		if err == nil && !strings.Contains(string(text), address) {
			err = fmt.Errorf("%s is not in\n%s", address, text)
		}
	}
	return err
}

// path is where the balancer's program is.
func (b *lab) path() string {
	b.t.Helper()
	if b.program == "traefik" {
		return *traefikProgram
	}
	return harness.FindProgram(b.t, b.program)
}

// command is one of the way's, here.
func (b *lab) command(words []string) []string {
	argv := slices.Clone(words)
	for i := range argv {
		argv[i] = b.here.Replace(argv[i])
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
		if err := b.balancer.Stop(syscall.SIGTERM, patience.Limit); err != nil {
			b.t.Error(err)
		}
		if text, err := os.ReadFile(log); b.t.Failed() {
			b.t.Logf("log of %s (%v):\n%s", b.name, err, text)
		}
	})
	if err := b.balancer.WaitReady(patience.Limit, b.answers); err != nil {
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
