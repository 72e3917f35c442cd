package docs

import (
	"healthd/e2e/ports"

	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/docs/pagetest"
	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const (
	firstHourPage    = "../../docs/first-hour.md"
	firstHourCompose = "docker compose -f /srv/shop/compose.yaml up -d"
	firstHourDB      = "127.0.0.1:5433" // where the page's database is published
)

// firstHour plays docs/first-hour.md: a host with its files below root, and its addresses replaced by
// free ones.
type firstHour struct {
	t       *testing.T
	root    string
	engine  *dockertest.Engine
	project *composeProject
	daemon  *harness.Daemon
	haproxy *harness.HAProxy
	agent   string            // address of healthd's agent listener
	here    *strings.Replacer // what the page says → what it is here
	there   *strings.Replacer // the other way round
	played  map[string]int    // what was played, by first word
}

// The page and the program say the same.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	h := newFirstHour(t)
	for _, s := range pagetest.Steps(t, firstHourPage) {
		if s.Path() != "" {
			h.write(s.Block)
		} else {
			h.play(s)
		}
	}
	h.balancers()
	for _, word := range []string{"healthd", "docker", "haproxy", "systemctl", "curl", "echo", "sed", "rm", "apt"} {
		if h.played[word] == 0 {
			t.Errorf("the page has no command %s: %v", word, h.played)
		}
	}
}

func newFirstHour(t *testing.T) *firstHour {
	t.Helper()
	path, err := harness.Program()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "hd-fh") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	h := &firstHour{t: t, root: root, engine: dockertest.Start(t), played: map[string]int{}}
	h.project = &composeProject{t: t, engine: h.engine, standIns: map[string][]string{
		"postgres:17": {"sh", "-c", "echo '#!/bin/sh' > /bin/pg_isready; chmod +x /bin/pg_isready; exec testserver -tcp :5432"},
	}}
	http, agent, www, db := ports.Address(t), ports.Address(t), ports.Address(t), ports.Address(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	pairs := []string{
		"127.0.0.1:8646", http, "127.0.0.1:8000", www, "127.0.0.1:5432", db,
		"/etc/healthd/", root + "/etc/healthd/", "/srv/", root + "/srv/", "/run/haproxy/", root + "/haproxy/",
	}
	h.agent = agent
	h.here = strings.NewReplacer(append(pairs, "/etc/haproxy/", root+"/haproxy/",
		"agent-port 8647", "agent-port "+port(agent), "port 8646", "port "+port(http))...)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	h.there = strings.NewReplacer(pairs...)
	for _, dir := range []string{"etc/healthd/conf.d", "haproxy", "srv/shop"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(root, "etc/healthd/healthd.toml")
	text := fmt.Sprintf("%s[listen]\nhttp = %q\nagent = %q\ncontrol = %q\n[state]\ndir = %q\n",
		h.engine.Runtime(), http, agent, filepath.Join(root, "control.sock"), filepath.Join(root, "state"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.daemon = &harness.Daemon{T: t, Path: path, Config: config, More: []string{filepath.Join(root, "etc/healthd/conf.d")},
		Runtime: "docker", URL: "http://" + http, Log: &harness.Buffer{}}
	h.haproxy = &harness.HAProxy{T: t, Path: harness.FindHAProxy(t), Dir: filepath.Join(root, "haproxy"), URL: "http://" + www, Log: &harness.Buffer{}}
	return h
}

// write writes the file that a block is.
func (h *firstHour) write(b pagetest.Block) {
	h.t.Helper()
	text := h.here.Replace(b.Text)
	if strings.Contains(text, firstHourDB) && b.Language == "haproxy" {
		text = strings.ReplaceAll(text, firstHourDB, h.address("shop-db-1")+":5432") // the test's engines publish no ports
	}
	if err := os.WriteFile(h.here.Replace(b.Path()), []byte(text), 0o600); err != nil {
		h.t.Fatalf("%s:%d: %v", firstHourPage, b.Line, err)
	}
}

// address is a container's, as the engine has it.
func (h *firstHour) address(name string) string {
	h.t.Helper()
	c, err := h.engine.Client().ContainerInspect(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, n := range c.NetworkSettings.Networks {
		return n.IPAddress
	}
	h.t.Fatalf("%s has no network", name)
	return ""
}

// play plays commands, and compares what the last one prints. One that only looks gets time until it prints what
// the page says.
func (h *firstHour) play(s pagetest.Step) {
	h.t.Helper()
	for _, c := range s.Commands() {
		h.played[strings.Fields(c.Text)[0]]++
		try := func() error { return c.Check(h.run(c.Text)) }
		begun := time.Now()
		if c.Looks() {
			h.daemon.Eventually("bring about "+c.Text, try)
		} else if err := try(); err != nil {
			h.t.Fatalf("%s:%d: %s: %v", firstHourPage, c.Line, c.Text, err)
		}
		h.t.Logf("%6.1f s  %s", time.Since(begun).Seconds(), c.Text)
	}
}

// run runs a command of the page and returns what it prints, as the host of the page would.
func (h *firstHour) run(command string) (output string, err error) {
	words := strings.Fields(h.here.Replace(command))
	switch {
	case words[0] == "healthd":
		out, code := h.daemon.Run(words[1:]...)
		if code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		return h.there.Replace(out), err
	case words[0] == "curl" && len(words) == 3 && words[1] == "-s":
		return h.curl(strings.Trim(words[2], "'"))
	case words[0] == "sed" || words[0] == "rm" || words[0] == "haproxy":
		if words[0] == "haproxy" {
			command = h.haproxy.Path + strings.TrimPrefix(command, "haproxy")
		}
		out, err := exec.CommandContext(h.t.Context(), "sh", "-c", h.here.Replace(command)).CombinedOutput()
		return string(out), err
	case strings.HasPrefix(command, "docker exec "):
		harness.Inside(h.t, h.engine, words[2], words[3:]...)
		return "", nil
	}
	if found := stats.FindStringSubmatch(command); found != nil {
		return h.stats(found[1], found[2])
	}
	return "", h.operate(command)
}

func (h *firstHour) curl(url string) (string, error) {
	server := *h.daemon
	if strings.HasPrefix(url, h.haproxy.URL) {
		server.URL = h.haproxy.URL
	}
	code, body, err := server.Get(strings.TrimPrefix(url, server.URL))
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("status %d", code)
	}
	return body, err
}

var stats = regexp.MustCompile(`^echo "(show stat)" \| socat stdio /run/haproxy/admin.sock \| cut -d, -f([0-9,]+)$`)

// stats asks HAProxy, and cuts out fields of the table.
func (h *firstHour) stats(command, fields string) (string, error) {
	answer, err := h.haproxy.Query(command)
	if err != nil {
		return "", err
	}
	text := ""
	for row := range strings.Lines(answer) {
		all, cut := strings.Split(strings.TrimSpace(row), ","), []string(nil)
		for field := range strings.SplitSeq(fields, ",") {
			if i, err := strconv.Atoi(field); err == nil && i > 0 && i <= len(all) {
				cut = append(cut, all[i-1])
			}
		}
		text += strings.Join(cut, ",") + "\n"
	}
	return text, nil
}

// operate does what the commands do that the test's host does not have.
func (h *firstHour) operate(command string) error {
	switch command {
	case firstHourCompose:
		h.project.up(h.here.Replace("/srv/shop/compose.yaml"))
	case "apt install ./healthd_0.1.0-1_amd64.deb": // systemd/ tests it, with this page
	case "systemctl restart haproxy":
		h.haproxy.Start()
		h.t.Cleanup(func() {
			h.haproxy.Kill()
			if h.t.Failed() {
				h.t.Logf("log of HAProxy:\n%s", h.haproxy.Log)
			}
		})
	case "systemctl enable --now healthd":
		harness.StartedDaemon(h.daemon)
	default:
		return fmt.Errorf("the test does not know how to play it")
	}
	return nil
}
