package docs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"healthd/docs/pagetest"
	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const migratingPage = "../../docs/migrating.md"

// migration plays a section of docs/migrating.md: a host with its files below root.
type migration struct {
	t       *testing.T
	root    string
	engine  *dockertest.Engine
	project *composeProject
	daemon  *harness.Daemon
	here    *strings.Replacer // what the page says → what it is here
	there   *strings.Replacer // the other way round
	played  map[string]int    // what was played, by first word
}

// Each section of the page makes what it comes from, imports it, and prints what the page says. What was
// imported from containers and from Compose heals a container.
func TestMigrating(t *testing.T) {
	t.Parallel()
	engine := dockertest.Start(t)
	sections := readSections(t, migratingPage)
	for title, heals := range map[string]string{"autoheal": "shop-web-1", "deunhealth": "", "Docker-Guardian": "", "HEALTHCHECK": "", "Compose": "store-web-2", "Kubernetes": "", "Nomad": ""} {
		steps := sections[title]
		if len(steps) < 2 {
			t.Fatalf("the page has no section %s with an example", title)
		}
		delete(sections, title)
		t.Run(title, func(t *testing.T) {
			m := newMigration(t, engine)
			m.play(steps)
			if title == "Compose" {
				m.project.up(m.here.Replace("/srv/store/compose.yaml"))
				m.daemon.Start()
			}
			if heals != "" {
				m.heals(heals)
			}
			m.valid()
		})
	}
	if len(sections) > 0 {
		t.Errorf("no test plays %v", slices.Sorted(maps.Keys(sections)))
	}
}

// readSections returns the steps of a page by the heading that they are below.
func readSections(t *testing.T, page string) map[string][]pagetest.Step {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines, title := strings.Split(string(text), "\n"), ""
	titles := make([]string, len(lines)+1)
	for i, line := range lines {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			title = heading
		}
		titles[i+1] = title
	}
	sections := map[string][]pagetest.Step{}
	for _, s := range pagetest.Steps(t, page) {
		sections[titles[s.Line]] = append(sections[titles[s.Line]], s)
	}
	return sections
}

func newMigration(t *testing.T, engine *dockertest.Engine) *migration {
	t.Helper()
	root, err := os.MkdirTemp("", "hd-mig") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m := &migration{
		t: t, root: root, engine: engine, project: &composeProject{t: t, engine: engine}, daemon: harness.NewDaemonOn(t, engine, ""), played: map[string]int{},
		here:  strings.NewReplacer("/etc/healthd/", root+"/etc/healthd/", "/srv/", root+"/srv/"),
		there: strings.NewReplacer(root+"/etc/healthd/", "/etc/healthd/", root+"/srv/", "/srv/"),
	}
	conf := filepath.Join(root, "etc/healthd/conf.d")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	m.daemon.More = []string{conf}
	return m
}

// play writes the files of a section and runs its commands.
func (m *migration) play(steps []pagetest.Step) {
	m.t.Helper()
	for _, s := range steps {
		if s.Path() == "" {
			m.commands(s)
			continue
		}
		file := m.here.Replace(s.Path())
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(s.Text), 0o600)); err != nil {
			m.t.Fatal(err)
		}
	}
	if m.played["healthd"] == 0 {
		m.t.Error("the section imports nothing")
	}
}

// commands runs those of a step, and compares what the last one prints. The page leaves out the comments at the top of an
// import.
func (m *migration) commands(s pagetest.Step) {
	m.t.Helper()
	for _, c := range s.Commands() {
		m.played[strings.Fields(c.Text)[0]]++
		try := func() error {
			printed, err := m.run(c.Text)
			if _, specs, ok := strings.Cut(printed, "\n\n[[spec]]"); ok && err == nil && c.Output != "" {
				return sameLines(c.Output, "[[spec]]"+specs)
			}
			return c.Check(printed, err)
		}
		if c.Looks() {
			m.daemon.Eventually("bring about "+c.Text, try)
		} else if err := try(); err != nil {
			m.t.Errorf("%s:%d: %s: %v", migratingPage, c.Line, c.Text, err)
		}
	}
}

// sameLines compares a file that was printed with the page's. Where a comment is broken depends on the paths in it.
func sameLines(page, printed string) error {
	joined := func(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, "\n#   ", " ")) }
	if joined(page) == joined(printed) {
		return nil
	}
	return fmt.Errorf("the page has\n%s\nthe output is\n%s", page, printed)
}

// run runs a command of the page and returns what it prints on stdout, as the host of the page would.
func (m *migration) run(command string) (string, error) {
	command, into, _ := strings.Cut(m.here.Replace(command), " > ")
	words := strings.Fields(command)
	printed, err := "", error(nil)
	switch {
	case words[0] == "healthd":
		var out []byte
		out, err = exec.CommandContext(m.t.Context(), m.daemon.Path, append(words[1:], m.daemon.ConfigFlags()...)...).Output()
		printed = m.there.Replace(string(out))
	case words[0] == "cat":
		var text []byte
		text, err = os.ReadFile(words[1])
		printed = string(text)
	case strings.HasPrefix(command, "docker compose -f ") && strings.HasSuffix(command, " up -d"):
		m.project.up(words[3])
	case strings.HasPrefix(command, "docker rm -f "):
		m.engine.Remove(m.t, words[3])
	case command == "systemctl start healthd":
		m.daemon.Start()
	default:
		err = errors.New("the test does not know this command")
	}
	if into != "" && err == nil {
		err = os.WriteFile(into, []byte(printed), 0o600)
	}
	return printed, err
}

// heals makes a container unhealthy, and waits until healthd has restarted it and it is ready.
func (m *migration) heals(name string) {
	m.t.Helper()
	before := m.daemon.Until(name, "ready", harness.Ready)
	harness.Set(m.t, m.engine, name, "status=500")
	m.daemon.Until(name, "restarted and ready", func(s harness.Status) bool { return s.Ready && s.RestartCount == before.RestartCount+1 })
	if got := m.daemon.Reasons(name); !slices.Contains(got, "Killing") {
		m.t.Errorf("%s was not restarted for its liveness probe: %v", name, got)
	}
}

// valid checks what was imported into files.
func (m *migration) valid() {
	m.t.Helper()
	if out, code := m.daemon.Run("check"); code != 0 {
		m.t.Errorf("healthd check: %s", out)
	}
}
