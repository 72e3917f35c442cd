package fleet

import (
	"healthd/e2e/patience"

	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/kballard/go-shellquote"

	"healthd/docs/pagetest"
	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest"
)

const fleetPage = "../../docs/fleet.md"

// hereDocument is a file that a command of the page writes.
var hereDocument = regexp.MustCompile(`(?ms)^cat >>? (\S+) <<'EOF'\n(.*?)^EOF$`)

// The fleet of docs/fleet.md that is there in five minutes is: its hosts are network namespaces.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	var commands, shown []string
	for _, b := range pagetest.Read(t, fleetPage) {
		switch b.Language {
		case "sh":
			commands = append(commands, b.Text)
		case "console":
			shown = append(shown, b.Text)
		}
	}
	p := &fleetPlay{t: t, net: newSegment(t)}
	balancer := p.files(commands[0])
	p.startEtcd(balancer["/etc/default/etcd"])
	p.startHAProxy(balancer["/etc/haproxy/haproxy.cfg"])
	engineless, rest, _ := strings.Cut(balancer["/etc/healthd/healthd.toml"], "\n")
	lb := p.startHealthd("lb", 2, engineless+"\n", strings.Replace(rest, "/run/haproxy/admin.sock", p.haproxy.Socket(), 1))
	p.startHost("h1", 11, commands[1])
	p.startHost("h2", 12, strings.ReplaceAll(commands[1], "10.0.0.11", "10.0.0.12"))
	command, want, _ := strings.Cut(strings.TrimPrefix(shown[0], "$ "), "\n")
	lb.Eventually("print what the page shows", func() error {
		output, _ := lb.Run(strings.Fields(command)[1:]...)
		return pagetest.Compare(strings.ReplaceAll(want, "0.1.0", "devel"), output)
	})
	lb.Eventually("have HAProxy send requests to all", func() error {
		servers, err := p.haproxy.Rows()
		up := 0
		for _, s := range servers {
			if s["pxname"] == "web" && strings.HasPrefix(s["status"], "UP") && strings.HasPrefix(s["svname"], "h") {
				up++
			}
		}
		if err == nil && up != 4 {
			err = fmt.Errorf("%d servers are up: %v", up, servers)
		}
		return err
	})
}

// fleetPlay plays the page. Hosts get their addresses here in the place of those of the page.
type fleetPlay struct {
	t       *testing.T
	net     *segment
	haproxy *harness.HAProxy
}

// files are those that commands write, by path. The test server has no page at /.
func (p *fleetPlay) files(commands string) map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, found := range hereDocument.FindAllStringSubmatch(commands, -1) {
		all[found[1]] = strings.NewReplacer("10.0.0.", p.net.prefix, `path = "/"`, `path = "/healthz"`, "GET /\n", "GET /healthz\n").Replace(found[2])
	}
	return all
}

// startEtcd starts it as Debian's unit does, with the variables of a file. The host lb is there after it.
func (p *fleetPlay) startEtcd(variables string) {
	p.t.Helper()
	dir := p.t.TempDir()
	etcd := enginetest.NewProcess("etcd", filepath.Join(dir, "log"), inNetns(p.net.netns("lb", 2), harness.FindProgram(p.t, "etcd"))...)
	etcd.Env = append(strings.Fields(variables), "ETCD_NAME=lb", "ETCD_DATA_DIR="+filepath.Join(dir, "default"))
	if err := etcd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = etcd.Stop(syscall.SIGKILL, patience.Limit) })
}

// StartHAProxy starts it with a part of its configuration after what Debian's has.
func (p *fleetPlay) startHAProxy(part string) {
	p.t.Helper()
	const debian = "global\n  stats socket /run/haproxy/admin.sock mode 660 level admin\ndefaults\n  mode http\n  timeout connect 5000\n  timeout client 50000\n  timeout server 50000\n"
	p.haproxy = harness.StartHAProxyWith(p.t, debian+strings.Replace(part, "bind :80", "bind 127.0.0.1:8000", 1))
}

func (p *fleetPlay) startHost(name string, number int, commands string) {
	p.t.Helper()
	ns := p.net.netns(name, number)
	e := dockertest.StartIn(p.t, ns)
	p.startHealthd(name, number, fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = %q\n", e.Endpoint), p.files(commands)["/etc/healthd/healthd.toml"])
	for line := range strings.Lines(commands) {
		if strings.HasPrefix(line, "docker run ") {
			p.runContainer(e, line)
		}
	}
}

// runContainer runs the test server in the place of the image.
func (p *fleetPlay) runContainer(e *dockertest.Engine, line string) {
	p.t.Helper()
	words, err := shellquote.Split(line)
	if err != nil {
		p.t.Fatal(err)
	}
	o := dockertest.RunOptions{Cmd: []string{"/bin/testserver", "-http", ":80"}, Labels: map[string]string{}}
	for i, word := range words[:len(words)-1] {
		switch next := words[i+1]; word {
		case "--name":
			o.Name = next
		case "-p":
			o.Publish = next
		case "--label":
			key, value, _ := strings.Cut(next, "=")
			o.Labels[key] = value
		}
	}
	e.Run(p.t, o)
}

func (p *fleetPlay) startHealthd(name string, number int, runtimes, rest string) *harness.Daemon {
	p.t.Helper()
	d := harness.NewDaemonWith(p.t, runtimes, strings.Replace(rest, "[fleet]\n", fmt.Sprintf("[fleet]\nhost = %q\n", name), 1))
	address := p.net.address(number)
	d.Rewrite(func(text string) string {
		return strings.NewReplacer(strings.TrimPrefix(d.URL, "http://"), address+":8646", `agent = ""`, fmt.Sprintf("agent = %q", address+":8647")).Replace(text)
	})
	d.URL, d.Under, d.Runtime = "http://"+address+":8646", inNetns(p.net.bridge+"-"+name), "docker"
	return harness.StartedDaemon(d)
}
