package main

import (
	"healthd/e2e/ports"

	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

// notifications is a stand-in for systemd's end of sd_notify.
type notifications struct {
	path     string
	messages chan string
}

func listenNotifications(t *testing.T) *notifications {
	t.Helper()
	const enough = 10_000 // the daemon is not to wait for the test
	n := &notifications{filepath.Join(t.TempDir(), "notify.sock"), make(chan string, enough)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			k, err := conn.Read(buf)
			if err != nil {
				return
			}
			n.messages <- string(buf[:k])
		}
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
	return n
}

// await reads messages until one is this, and returns those before it.
func (n *notifications) await(t *testing.T, want string) (before []string) {
	t.Helper()
	before, _ = n.awaitAny(t, want, func(got string) bool { return got == want })
	return before
}

func (n *notifications) awaitAny(t *testing.T, what string, is func(string) bool) (before []string, found string) {
	t.Helper()
	timeout := time.After(patience.Limit)
	for {
		select {
		case got := <-n.messages:
			if is(got) {
				return before, got
			}
			before = append(before, got)
		case <-timeout:
			t.Fatalf("no %q among %q", what, before)
		}
	}
}

// process is a healthd that runs as a program of its own.
type process struct {
	socket, http, agent, dns string
	config, daemon           string // its file, and how that begins
	state                    string // directory
	notify                   *notifications
	signal                   func(os.Signal)
	wait                     func() (code int)
	log                      *bytes.Buffer // to be read after wait
}

// newProcess makes a configuration for an engine, with a state directory of its own.
func newProcess(t *testing.T, endpoint, specs string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{
		socket: filepath.Join(dir, "run", "control.sock"), http: ports.Address(t), agent: ports.Address(t), dns: ports.Address(t), state: filepath.Join(dir, "state"),
		config: filepath.Join(dir, "healthd.toml"),
	}
	p.daemon = fmt.Sprintf(`[[runtime]]
type = "docker"
endpoint = %q
[listen]
http = %q
agent = %q
dns = %q
control = %q
[state]
dir = %q
`, endpoint, p.http, p.agent, p.dns, p.socket, p.state)
	p.configure(t, specs)
	return p
}

// configure rewrites what there is behind the settings of the daemon itself.
func (p *process) configure(t *testing.T, specs string) {
	t.Helper()
	if err := os.WriteFile(p.config, []byte(p.daemon+specs), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startDaemon starts healthd for an engine.
func startDaemon(t *testing.T, endpoint, specs string) *process {
	t.Helper()
	p := newProcess(t, endpoint, specs)
	p.start(t)
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.log = &bytes.Buffer{}
	p.startInto(t, p.log)
}

// startInto starts healthd with that to take its log.
func (p *process) startInto(t *testing.T, log io.Writer) {
	t.Helper()
	p.notify = listenNotifications(t)
	cmd := program(t, "run", "--config", p.config)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+p.notify.path, "WATCHDOG_USEC=200000")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() && p.log != nil {
			t.Logf("the daemon's log:\n%s", p.log)
		}
	})
	p.signal = func(s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	p.wait = func() int {
		select {
		case <-ended:
		case <-time.After(patience.Limit):
			_ = cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go to its log
			<-ended
			t.Fatalf("the daemon still runs after %s", patience.Limit)
		}
		return cmd.ProcessState.ExitCode()
	}
}

// get returns status and body of the read-only listener's answer.
func (p *process) get(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := http.Get("http://" + p.http + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// follow reads the events of a container, old and new, until one has that text.
func (p *process) follow(t *testing.T, name, text string) {
	t.Helper()
	cmd := program(t, "events", name, "--follow", "-o", "json", "--socket", p.socket)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience.Limit, func() { _ = cmd.Process.Kill() }).Stop()
	var seen []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if seen = append(seen, lines.Text()); strings.Contains(lines.Text(), text) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return
		}
	}
	_ = cmd.Wait()
	t.Fatalf("no event of %s has %q:\n%s", name, text, strings.Join(seen, "\n"))
}

func (p *process) askAgent(t *testing.T, name string) string {
	t.Helper()
	conn, err := net.Dial("tcp", p.agent)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, name); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// askDNS returns the answer to a question for SRV records.
func (p *process) askDNS(t *testing.T, name string) *dns.Msg {
	t.Helper()
	answer, _, err := new(dns.Client).Exchange(new(dns.Msg).SetQuestion(name, dns.TypeSRV), p.dns)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestDaemon(t *testing.T) {
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "web-1", Labels: map[string]string{"app": "web"}})
	engine.Run(t, dockertest.RunOptions{Name: "wrong", Labels: map[string]string{"healthd.liveness.period": "soon"}})
	engine.Run(t, dockertest.RunOptions{Name: "other"})
	engine.Run(t, dockertest.RunOptions{Name: "nurse", Image: "example/autoheal:1.2"})
	p := startDaemon(t, engine.Endpoint, `
[[spec]]
name = "web"
match = { app = "web" }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "100ms"
[spec.liveness]
tcp_socket = { port = 8080 }
[spec.publish]
port = 8080
drain = "100ms"
[[spec]]
name = "unused"
match = { app = "nothing" }
[spec.liveness]
tcp_socket = { port = 8080 }
`)
	p.notify.await(t, "READY=1")
	if got := healthd(t, "status", "web-1", "--socket", p.socket); got.code != 0 || !strings.Contains(got.stdout, "web-1") { // it waits for the engine
		t.Errorf("status right after READY: %+v", got)
	}
	p.notify.await(t, "STATUS=2 containers, 1 ready, 0 restarting, 1 invalid")
	p.notify.await(t, "WATCHDOG=1")

	checkAnswers(t, p)
	checkCommands(t, p)

	p.signal(syscall.SIGTERM)
	p.notify.await(t, "STOPPING=1")
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(p.socket); err == nil {
		t.Error("the control socket was left behind")
	}
	for _, want := range []string{`"msg":"no container matches the spec so far","spec":"unused"`, `"dns":"` + p.dns + `"`, `"reason":"Killing"`, `"warning":"container nurse (docker) runs`} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

func checkAnswers(t *testing.T, p *process) {
	t.Helper()
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/v1/ready/web-1": 200, "/v1/ready/web/web-1": 200, "/v1/ready/other": 503,
		"/v1/ready/wrong": 503, "/v1/containers/other": 404, "/v1/services/web/ready": 200, "/metrics": 200,
	} {
		if code, body := p.get(t, path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	if _, body := p.get(t, "/metrics"); !strings.Contains(body, `healthd_container_ready{container="web-1",project="",service="web"} 1`) ||
		!strings.Contains(body, "\nhealthd_invalid_containers 1\n") {
		t.Errorf("metrics: %s", body)
	}
	if got := p.askDNS(t, "_http._tcp.web.healthd.").Answer; len(got) != 1 || !regexp.MustCompile(`SRV\t0 1 8080 [0-9a-f]{12}\.web\.healthd\.$`).MatchString(got[0].String()) {
		t.Errorf("DNS: %v", got)
	}
	if _, body := p.get(t, "/metrics"); !strings.Contains(body, `healthd_dns_queries_total{rcode="NOERROR",type="SRV"} 1`) {
		t.Errorf("metrics: %s", body)
	}
	if got := p.askAgent(t, "web/web-1\n"); got != "up 100%\n" {
		t.Errorf("agent: %q", got)
	}
}

func checkCommands(t *testing.T, p *process) {
	t.Helper()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "wrong is Invalid"},
		{[]string{"status"}, "warning: container nurse (docker) runs beside healthd"},
		{[]string{"explain", "web-1"}, "warning: container nurse (docker) runs beside healthd"},
		{[]string{"explain", "web-1"}, "readiness probe: after 3 failures in a row, it is not ready"},
		{[]string{"explain", "web-1"}, "web, by match app"},
		{[]string{"status", "--all"}, "other is not supervised: it has no label that begins with healthd.; spec web ("},
		{[]string{"status", "--all", "-o", "name"}, "web-1\nwrong\nnurse\nother\n"},
		{[]string{"explain", "other"}, "): it has no label app\n"},
		{[]string{"probe", "web-1"}, "liveness probe of web-1: Success"},
		{[]string{"probe", "web-1", "readiness"}, "readiness probe of web-1: Success"},
		{[]string{"restart", "web-1"}, "web-1: running again since "},
		{[]string{"events", "web-1"}, "Killing"},
	} {
		got := healthd(t, append(tt.args, "--socket", p.socket)...)
		if got.code != 0 || !strings.Contains(got.stdout+got.stderr, tt.want) || got.stderr != "" && tt.args[0] != "status" {
			t.Errorf("%v: %d %q, want %q in:\n%s", tt.args, got.code, got.stderr, tt.want, got.stdout)
		}
	}
}

// An engine that is not there does not keep DNS from answering for the containers of another one.
func TestDaemonWithoutOneEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "aa", Labels: map[string]string{"app": "aa"}})
	away := fmt.Sprintf("[[runtime]]\nendpoint = \"unix://%s\"\n", filepath.Join(t.TempDir(), "docker.sock"))
	p := startDaemon(t, engine.Endpoint, away+specFor("aa")+"[spec.publish]\nport = 8080\n")
	p.notify.await(t, "READY=1")
	if code, body := p.get(t, "/v1/services/aa/ready"); code != http.StatusOK { // it waits for that
		t.Fatalf("%d %s", code, body)
	}
	if got := p.askDNS(t, "aa.healthd."); len(got.Answer) != 1 {
		t.Errorf("of one that is there: %v", got)
	}
	if got := p.askDNS(t, "bb.healthd."); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("of one that may be: %v", got)
	}
	if code, body := p.get(t, "/v1/discovery/prometheus"); code != http.StatusServiceUnavailable {
		t.Errorf("discovery: %d %s", code, body)
	}
	const want = "warning: healthd has not reached runtime docker-2 since it began: its services have no DNS names, /v1/discovery and published files wait for it: cannot connect"
	if got := healthd(t, "status", "--socket", p.socket); !strings.Contains(got.stderr, want) {
		t.Errorf("%+v", got)
	}
}

func TestDaemonWithoutAnEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	p := startDaemon(t, "unix://"+socket, "")
	before := p.notify.await(t, "STATUS=waiting for docker: cannot connect to Docker at unix://"+socket+": there is no such socket; is the engine running?")
	if !slices.Contains(before, "READY=1") { // systemd is told as soon as the listeners are open
		p.notify.await(t, "READY=1")
	}
	p.notify.await(t, "WATCHDOG=1")
	if code, body := p.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "docker") {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := p.get(t, "/livez"); code != http.StatusOK {
		t.Errorf("livez: %d", code)
	}
	if got := p.askDNS(t, "web.healthd."); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("DNS: %v", got)
	}
	if _, body := p.get(t, "/metrics"); !strings.Contains(body, `healthd_runtime_up{runtime="docker"} 0`) {
		t.Errorf("metrics: %s", body)
	}
	got := healthd(t, "status", "--socket", p.socket)
	if got.code != 0 || !strings.HasPrefix(got.stdout, "no container is known yet: not ready: waiting for the first full list from docker") {
		t.Errorf("%+v", got)
	}
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestSecondDaemon(t *testing.T) {
	p := startDaemon(t, "unix://"+filepath.Join(t.TempDir(), "docker.sock"), "")
	p.notify.await(t, "WATCHDOG=1")
	for _, tt := range []struct{ socket, state, want string }{
		{p.socket, t.TempDir(), "cannot listen on the control socket: another healthd answers on " + p.socket + ": stop it or change listen.control"},
		{filepath.Join(t.TempDir(), "s"), p.state, "cannot keep the journal: another healthd uses " + p.state + ": stop it or change state.dir"},
	} {
		config := write(t, "second.toml", fmt.Sprintf("[listen]\nhttp = \"\"\nagent = \"\"\ncontrol = %q\n[state]\ndir = %q\n", tt.socket, tt.state))
		got := healthd(t, "run", "--config", config)
		if want := "healthd: " + tt.want + "\n"; got.code != 1 || got.stderr != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := healthd(t, "status", "--socket", p.socket); got.code != 0 {
		t.Errorf("the first one is gone: %+v", got)
	}
}

// stubborn starts a daemon with a container that a stop takes a while for, begins
// its restart and sends the daemon SIGTERM when the stop is under way.
func stubborn(t *testing.T, grace string) (p *process, id string) {
	t.Helper()
	engine := private.Engine(t)
	id = engine.Run(t, dockertest.RunOptions{Name: "stubborn", Cmd: []string{"sleep", "1000"}, Labels: map[string]string{
		"healthd.liveness.exec.command": "true", "healthd.termination_grace_period": grace,
	}})
	p = startDaemon(t, engine.Endpoint, "")
	p.notify.await(t, "STATUS=1 container, 1 ready, 0 restarting")
	restart := program(t, "restart", "stubborn", "--socket", p.socket)
	out, err := restart.StdoutPipe()
	if err == nil {
		err = restart.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); said != "stubborn: draining and stopping" && lines.Scan(); {
		said = lines.Text()
	}
	_ = restart.Process.Kill()
	if _ = restart.Wait(); said != "stubborn: draining and stopping" {
		t.Fatalf("it ended with %q", said)
	}
	p.signal(syscall.SIGTERM)
	p.notify.await(t, "STOPPING=1")
	return p, id
}

func TestDaemonEndsAfterTheRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	p, id := stubborn(t, "15s")
	if code, body := p.get(t, "/v1/ready/stubborn"); code != http.StatusNotFound || body != "draining\n" {
		t.Errorf("while it ends: %d %q", code, body)
	}
	if got := p.askAgent(t, "stubborn,"); got != "up 0% # draining\n" {
		t.Errorf("while it ends: %q", got)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	c, err := private.Engine(t).Client().ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !c.State.Running || c.State.FinishedAt == "" || strings.HasPrefix(c.State.FinishedAt, "0001") {
		t.Errorf("it was not started again: %+v", c.State)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	p, _ := stubborn(t, "10m")
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

func TestSystemdThatDoesNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify.sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for sent := 0; ; sent++ {
		err := send(path, "WATCHDOG=1", 10*time.Millisecond)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil || sent > 100_000 {
			t.Fatalf("after %d: %v", sent, err)
		}
	}
}
