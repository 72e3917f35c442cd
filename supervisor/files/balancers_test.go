package files

import (
	"healthd/e2e/ports"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/supervisor"
)

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	patience.Until(t, what, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
}

// runProcess runs a program until the test ends.
func runProcess(t *testing.T, words ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said\n%s", words[0], said.String())
		}
	})
	return cmd.Process
}

// host is a scene whose members are servers that answer with their names, and which runs commands for real.
type host struct {
	*scene
	at     map[string]netip.AddrPort
	master atomic.Int32 // of nginx
}

func newHost(t *testing.T, f File) *host {
	t.Helper()
	h := &host{scene: newScene(t, nil), at: map[string]netip.AddrPort{}}
	f.Covers, f.MinInterval, f.Timeout, f.Drain = everything, 100*time.Millisecond, 10*time.Second, time.Second
	h.dir, h.files = filepath.Dir(f.Path), []File{f}
	for _, name := range []string{"a", "b"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
		t.Cleanup(server.Close)
		h.at[name] = server.Listener.Addr().(*net.TCPAddr).AddrPort()
	}
	return h
}

func (h *host) begin(t *testing.T) {
	p := New(Config{History: h, StateDir: h.state, Files: h.files})
	p.workers = func([]string) nginxLook { // other tests may run other nginxes
		look := lookAtNginx([]string{"nginx"})
		maps.DeleteFunc(look.masters, func(m nginxProcess, _ bool) bool { return m.pid != int(h.master.Load()) })
		return look
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, h) }()
	h.now = p
	t.Cleanup(func() {
		if cancel(); <-done != nil || t.Failed() {
			t.Logf("events\n%s", strings.Join(h.events, "\n"))
		}
	})
}

// shows shows a member with its real address.
func (h *host) shows(name string, ready, awaits bool) {
	change := isReady
	switch {
	case awaits:
		change = isAwaiting
	case !ready:
		change = nil
	}
	v := member("shop/web", name, 0, change)
	v.Container.Address, v.Spec.Publish.Port = h.at[name].Addr().String(), int(h.at[name].Port())
	h.board.Show(v)
}

// told says whether there was an event that begins so.
func (h *host) told(begin string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ev := range h.events {
		if strings.HasPrefix(ev, begin) {
			return true
		}
	}
	return false
}

func (h *host) isWithdrawn(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.withdrawn {
		if strings.HasSuffix(w, " "+name) {
			return true
		}
	}
	return false
}

// answersAt says who answers at an address in some requests, each on a connection of its own.
func answersAt(url string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	seen := map[string]bool{}
	for range 8 {
		text := "nobody"
		if response, err := client.Get(url); err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if text = string(body); response.StatusCode != http.StatusOK {
				text = response.Status[:3]
			}
		}
		seen[text] = true
	}
	all := ""
	for _, name := range []string{"a", "b", "502", "503", "nobody"} {
		if seen[name] {
			all += name
		}
	}
	return all
}

// A private nginx goes by the file that healthd writes. It is not yet there at first, loses a container with a request's delay,
// has nobody, and cannot apply what its reload accepts.
func TestNginx(t *testing.T) {
	dir := t.TempDir()
	port := ports.Free(t)
	conf := filepath.Join(dir, "nginx.conf")
	config := func(more string) {
		put(t, conf, fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log %[1]s/error.log; worker_processes 2;
events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
include %[1]s/conf.d/*.conf;
server { listen 127.0.0.1:%[2]d; location / { proxy_pass http://shop--web; } }
%[3]s }
`, dir, port, more), 0o600)
	}
	config("")
	nginx := []string{"nginx", "-p", dir, "-c", conf, "-e", dir + "/error.log"}
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	with := func(more ...string) []string { return append(append([]string{}, nginx...), more...) }
	h := newHost(t, File{Path: filepath.Join(dir, "conf.d", "healthd.conf"), Template: mustShip(t, "nginx"), Check: with("-t", "-q"), Reload: with("-s", "reload")})
	h.shows("a", true, false)
	h.shows("b", true, false)
	h.begin(t)
	await(t, "the reload fails while nginx does not run", func() bool { return h.told("FileFailed: The reload for healthd.conf failed: exit status 1") })
	h.master.Store(int32(runProcess(t, nginx...).Pid))
	await(t, "the reload", func() bool { return h.told("FileBack: ") })
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await(t, "both answer", func() bool { return answersAt(url) == "ab" })
	h.shows("a", false, true)
	await(t, "a is withdrawn", func() bool { return h.isWithdrawn("a") })
	await(t, "only b answers", func() bool { return answersAt(url) == "b" })
	h.shows("b", false, false)
	await(t, "nobody is there", func() bool { return answersAt(url) == "502" })

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config(fmt.Sprintf("server { listen %s; }", taken.Addr()))
	h.mu.Lock()
	h.events = nil
	h.mu.Unlock()
	h.shows("b", true, false)
	await(t, "a reload that is not applied", func() bool {
		return h.told("FileFailed: The reload for healthd.conf failed: nginx has started no new workers: its error log says why")
	})
	if answersAt(url) != "502" {
		t.Error("nginx has taken over what it could not apply")
	}
	taken.Close()
	await(t, "the port is free", func() bool { return h.told("FileBack: ") })
	await(t, "b answers", func() bool { return answersAt(url) == "b" })

	config("broken")
	h.shows("a", true, false)
	await(t, "a check that refuses", func() bool {
		return h.told("FileFailed: The check refuses healthd.conf: exit status 1: nginx: [emerg]")
	})
	if text, err := os.ReadFile(h.files[0].Path); err != nil || strings.Contains(string(text), fmt.Sprint(h.at["a"].Port())) {
		t.Errorf("the file has %s, %v", text, err)
	}
}

// A private Caddy goes by the file that healthd writes.
func TestCaddy(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	dir := t.TempDir()
	port, admin := ports.Free(t), ports.Free(t)
	conf := filepath.Join(dir, "Caddyfile")
	put(t, conf, fmt.Sprintf("{\n\tadmin 127.0.0.1:%d\n\tauto_https off\n\tstorage file_system %[2]s/storage\n}\nimport %[2]s/healthd.caddyfile\nhttp://127.0.0.1:%[3]d {\n\treverse_proxy {\n\t\timport shop--web\n\t\tlb_policy round_robin\n\t}\n}\n", admin, dir, port), 0o600)
	caddy := func(command string) []string {
		return []string{"caddy", command, "--adapter", "caddyfile", "--config", conf}
	}
	h := newHost(t, File{Path: filepath.Join(dir, "healthd.caddyfile"), Template: mustShip(t, "caddy"), Check: caddy("validate"), Reload: caddy("reload")})
	h.shows("a", true, false)
	h.shows("b", true, false)
	h.begin(t)
	await(t, "the reload fails while Caddy does not run", func() bool { return h.told("FileFailed: The reload for healthd.caddyfile failed: exit status 1") })
	runProcess(t, caddy("run")...)
	await(t, "the reload", func() bool { return h.told("FileBack: ") })
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await(t, "both answer", func() bool { return answersAt(url) == "ab" })
	h.shows("a", false, true)
	await(t, "a is withdrawn", func() bool { return h.isWithdrawn("a") })
	if got := answersAt(url); got != "b" {
		t.Errorf("after the withdrawal %s answer", got)
	}
	h.shows("b", false, false)
	await(t, "nobody is there", func() bool { return answersAt(url) == "503" })
	if _, err := os.Stat("/caddy"); err == nil {
		t.Error("Caddy's commands have left something in /")
	}
}

// Prometheus reads what healthd writes, and has the labels.
func TestPromtool(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	for what, s := range map[string]*snapshot{"sample": sample(), "empty": snapshotOf(nil, everything, nil)} {
		dir := t.TempDir()
		file := filepath.Join(dir, "healthd.json")
		put(t, file, mustRender(t, mustShip(t, "prometheus"), s), 0o644)
		conf := filepath.Join(dir, "prometheus.yml")
		put(t, conf, "scrape_configs:\n- job_name: containers\n  file_sd_configs:\n  - files: ["+file+"]\n", 0o644)
		if out, err := exec.Command("promtool", "check", "config", conf).CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
			t.Errorf("%s: %v: %s", what, err, out)
		}
		out, err := exec.Command("promtool", "check", "service-discovery", "--timeout=2s", conf, "containers").Output()
		if what == "empty" {
			continue
		}
		var found []struct {
			Labels map[string]string `json:"labels"`
		}
		if err != nil || json.Unmarshal(out, &found) != nil || len(found) != 7 {
			t.Fatalf("%s: %v: %s", what, err, out)
		}
		for _, f := range found {
			if f.Labels["instance"] == "172.18.0.5:8080" && (f.Labels["service"] != "shop/web" || f.Labels["project"] != "shop" || f.Labels["container"] != "shop-web-4" || f.Labels["ready"] != "false" || f.Labels["draining"] != "true") {
				t.Errorf("got %v", f.Labels)
			}
			if host, ok := f.Labels["host"]; ok != (f.Labels["instance"] == "192.168.0.2:32768") || ok && (host != "h2" || f.Labels["container"] != "h2:shop-web-1") {
				t.Errorf("of another host, got %v", f.Labels)
			}
		}
	}
}

var codeBlocks = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// documented returns the block of docs/files.md with that first line.
func documented(t *testing.T, language, firstLine string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range codeBlocks.FindAllStringSubmatch(string(text), -1) {
		if block[1] == language && strings.HasPrefix(block[2], firstLine+"\n") {
			return block[2]
		}
	}
	t.Fatalf("there is no block %s", firstLine)
	return ""
}

// The balancers accept the configurations of the documentation, beside what healthd writes for them.
func TestDocumentedBalancers(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	dir := t.TempDir()
	in := func(name, text string) string {
		for from, to := range map[string]string{"/etc/caddy/": dir + "/", "/etc/haproxy/": dir + "/", "/etc/prometheus/": dir + "/"} {
			text = strings.ReplaceAll(text, from, to)
		}
		put(t, filepath.Join(dir, name), text, 0o644)
		return filepath.Join(dir, name)
	}
	nginx := in("nginx.conf", "pid "+dir+"/pid; error_log "+dir+"/log; events {}\nhttp { access_log off;\n"+mustRender(t, mustShip(t, "nginx"), sample())+documented(t, "nginx", "# /etc/nginx/conf.d/shop.conf")+"}\n")
	in("healthd.caddyfile", mustRender(t, mustShip(t, "caddy"), sample()))
	in("healthd.map", mustRender(t, mustShip(t, "haproxy-map"), sample()))
	in("healthd.json", mustRender(t, mustShip(t, "prometheus"), sample()))
	for _, command := range [][]string{
		{"nginx", "-t", "-q", "-p", dir, "-e", dir + "/log", "-c", nginx},
		{"caddy", "validate", "--adapter", "caddyfile", "--config", in("Caddyfile", documented(t, "caddyfile", "# /etc/caddy/Caddyfile"))},
		{"haproxy", "-c", "-f", in("haproxy.cfg", documented(t, "haproxy", "# /etc/haproxy/haproxy.cfg"))},
		{"promtool", "check", "config", in("prometheus.yml", documented(t, "yaml", "# /etc/prometheus/prometheus.yml"))},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+os.Getenv("PATH")+":/usr/sbin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", command, err, out)
		}
	}
}

// The map decides as the documentation says: nobody of a service is ready, and HAProxy says sorry.
func TestHAProxyMap(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	dir := t.TempDir()
	port := ports.Free(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a") }))
	t.Cleanup(backend.Close)
	config := strings.NewReplacer("/etc/haproxy/", dir+"/", ":8000", fmt.Sprintf("127.0.0.1:%d", port), "127.0.0.1:8080", backend.Listener.Addr().String()).
		Replace(documented(t, "haproxy", "# /etc/haproxy/haproxy.cfg"))
	put(t, filepath.Join(dir, "haproxy.cfg"), config, 0o644)
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	for want, all := range map[string][]supervisor.Service{"a": sampleHost(), "503": nil} {
		t.Run(want, func(t *testing.T) {
			put(t, filepath.Join(dir, "healthd.map"), mustRender(t, mustShip(t, "haproxy-map"), snapshotOf(all, everything, []string{"shop/web"})), 0o644)
			runProcess(t, "haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
			await(t, "HAProxy answers "+want, func() bool { return answersAt(url) == want })
		})
	}
}
