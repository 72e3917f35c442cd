package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// trouble makes a situation that docs/troubleshooting.md tells of.
type trouble struct {
	heading string // of its section
	specs   string // for the daemon that all share
	play    func(*stage)
}

// stage is where a trouble is played.
type stage struct {
	t   *testing.T
	e   *dockertest.Engine
	d   *harness.Daemon // the one that all share, unless play sets its own
	log string          // of daemons that did not start

	endpoint string   // of the engine, for a daemon of its own
	replaced []string // further texts of outputs, each before what an installed healthd has in its place
}

// Each symptom of docs/troubleshooting.md is made for real, and the commands of the page are
// run: they print the lines that the page quotes.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	sections, preface := readTroubles(t)
	plays := map[string]trouble{}
	specs := "[guard]\nmax_restarts = 0\n" // the probes of one trouble must not delay the restarts of another
	for _, p := range slices.Concat(daemonTroubles, seenTroubles, readinessTroubles, restartTroubles, waitingTroubles, fleetTroubles) {
		plays[p.heading] = p
		specs += p.specs
	}
	e := dockertest.Start(t) // the specs match what Compose makes, of other tests, too
	shared := newTroubleDaemon(t, e.Endpoint, specs)
	harness.StartedDaemon(shared)
	t.Run("symptoms", func(t *testing.T) {
		for _, section := range sections {
			p, ok := plays[section.heading]
			delete(plays, section.heading)
			t.Run(anchor(section.heading), func(t *testing.T) {
				t.Parallel()
				if !ok {
					t.Fatal("nothing plays this section")
				}
				section.check(t, preface)
				s := &stage{t: t, e: e, d: shared.In(t), endpoint: e.Endpoint}
				p.play(s)
				for _, c := range section.shown {
					s.shows(c)
				}
			})
		}
	})
	if left := slices.Sorted(maps.Keys(plays)); len(left) > 0 {
		t.Errorf("the page has no section of %q", left)
	}
}

// check checks that a section has all its parts, and can be found.
func (p pageSection) check(t *testing.T, preface string) {
	t.Helper()
	for _, part := range []string{"**Why.** ", "**Do.** "} {
		if !strings.Contains(p.text, part) {
			t.Errorf("the section does not say %q", part)
		}
	}
	if !strings.Contains(preface, "(#"+anchor(p.heading)+")") {
		t.Errorf("nothing links to #%s", anchor(p.heading))
	}
	if len(p.shown) == 0 {
		t.Error("the section shows no command")
	}
	for _, c := range p.shown {
		if len(c.lines) == 0 {
			t.Errorf("the section quotes nothing of %s", c.command)
		}
	}
}

// shows runs a command until its output has the lines that the page quotes.
func (s *stage) shows(c shownCommand) {
	s.t.Helper()
	s.d.Eventually("make "+c.command+" print what the page quotes", func() error {
		output := s.asInstalled(s.output(c.command))
		if err := occur(c.lines, output); err != nil {
			return fmt.Errorf("%w:\n%s", err, output)
		}
		return nil
	})
}

var priority = regexp.MustCompile(`(?m)^<\d>`)

// output runs a command of the page on this test's daemon.
func (s *stage) output(command string) string {
	s.t.Helper()
	words, err := shellquote.Split(strings.ReplaceAll(command, "http://127.0.0.1:8646", s.d.URL))
	if err != nil {
		s.t.Fatal(err)
	}
	switch words[0] {
	case "healthd":
		output, _ := s.d.Run(words[1:]...)
		return output
	case "sudo": // -u NAME healthd
		return s.asStranger(words[4:])
	case "journalctl":
		return priority.ReplaceAllString(s.log+s.d.Log.String(), "")
	case "curl":
		return s.curl(words[1:])
	}
	s.t.Fatalf("the page shows an unknown command: %s", command)
	return ""
}

// asStranger runs the client as somebody without rights.
func (s *stage) asStranger(words []string) string {
	s.t.Helper()
	for _, path := range []string{filepath.Dir(s.d.Path), filepath.Dir(s.d.Config)} {
		if err := os.Chmod(path, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Chmod(s.d.Config, 0o644); err != nil {
		s.t.Fatal(err)
	}
	args := slices.Concat([]string{"--reuid", "65534", "--regid", "65534", "--clear-groups", s.d.Path}, words, []string{"--config", s.d.Config})
	output, err := exec.CommandContext(s.t.Context(), "setpriv", args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return string(output)
}

// curl answers as curl -s [-H 'NAME: VALUE'] URL does.
func (s *stage) curl(words []string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, words[len(words)-1], nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, word := range words {
		if word == "-H" {
			name, value, _ := strings.Cut(words[i+1], ": ")
			request.Header.Set(name, value)
			if name == "Host" {
				request.Host = value
			}
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = io.Copy(&body, response.Body)
	if err != nil {
		return err.Error()
	}
	return body.String()
}

// asInstalled replaces the paths and addresses of a test by those of an installed healthd.
func (s *stage) asInstalled(output string) string {
	dir := filepath.Dir(s.d.Config)
	return strings.NewReplacer(append(slices.Clone(s.replaced),
		s.d.Config, "/etc/healthd/healthd.toml",
		filepath.Join(dir, "control.sock"), "/run/healthd/control.sock",
		filepath.Join(dir, "state"), "/var/lib/healthd",
		strings.TrimPrefix(s.d.URL, "http://"), "127.0.0.1:8646",
		strings.TrimPrefix(s.endpoint, "unix://"), "/var/run/docker.sock",
	)...).Replace(output)
}

// newTroubleDaemon logs as systemd's journal shows it.
func newTroubleDaemon(t *testing.T, endpoint, specs string) *harness.Daemon {
	t.Helper()
	d := harness.NewDaemon(t, endpoint, specs)
	d.Rewrite(func(text string) string {
		return strings.Replace(text, "format = \"console\"\nlevel = \"debug\"", `format = "journal"`, 1)
	})
	return d
}

// own gives the trouble a daemon of its own, which does not run yet.
func (s *stage) own(specs string) *harness.Daemon {
	s.t.Helper()
	s.d = newTroubleDaemon(s.t, s.endpoint, specs)
	return s.d
}

// service is a [[spec]] of a Compose service in the project shop.
func service(name, rest string) string {
	return fmt.Sprintf("[[spec]]\nname = %q\nmatch = { \"com.docker.compose.project\" = \"shop\", \"com.docker.compose.service\" = %[1]q }\n%s\n", name, rest)
}

// compose runs a container as Compose makes it: of the service web, shop-web-1.
func (s *stage) compose(service string, o dockertest.RunOptions) (id string) {
	s.t.Helper()
	return s.composeIn("shop", service, "1", o)
}

func (s *stage) composeIn(project, service, number string, o dockertest.RunOptions) (id string) {
	s.t.Helper()
	o.Name = strings.Join([]string{project, service, number}, "-")
	labels := map[string]string{
		"com.docker.compose.project": project, "com.docker.compose.service": service,
		"com.docker.compose.container-number": number, "com.docker.compose.oneoff": "False",
	}
	maps.Copy(labels, o.Labels)
	o.Labels = labels
	return s.e.Run(s.t, o)
}

// sick has the test server of a container fail /healthz.
func (s *stage) sick(id string) {
	s.t.Helper()
	harness.Set(s.t, s.e, id, "status=500")
}

// becomes waits until the container of a service is so.
func (s *stage) becomes(name, what string, wanted func(harness.Status) bool) {
	s.t.Helper()
	s.d.Until(name, what, wanted)
}
