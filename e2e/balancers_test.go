package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/docs/pagetest"
)

const balancersPage = "../docs/balancers.md"

// HAProxy accepts every configuration of the pages.
func TestHAProxyAcceptsThePages(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), findHAProxy(t)
	checked := 0
	for _, page := range []string{balancersPage, firstHourPage} {
		for _, b := range pagetest.Read(t, page) {
			if b.Language != "haproxy" {
				continue
			}
			checked++
			file := filepath.Join(dir, fmt.Sprintf("%d.cfg", checked)) // a HAProxy of another root sees no other files of the host
			if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), path, "-c", "-f", file).CombinedOutput()
			if err != nil || strings.Contains(string(out), "WARNING") {
				t.Errorf("%s:%d: %v\n%s", page, b.Line, err, out)
			}
		}
	}
	if checked < 4 {
		t.Errorf("found only %d configurations", checked)
	}
}

// Each whole file of the page says where it belongs.
func TestBalancersFilesHaveTheirPaths(t *testing.T) {
	t.Parallel()
	for _, b := range pagetest.Read(t, balancersPage) {
		if b.Path() == "" && b.Language != "text" {
			t.Errorf("%s:%d: a block of %s without its path", balancersPage, b.Line, b.Language)
		}
	}
}

// balancers asks the host of the first hour for all that docs/balancers.md has balancers ask, and runs its
// script.
func (h *firstHour) balancers() {
	h.t.Helper()
	page, err := os.ReadFile(balancersPage)
	if err != nil {
		h.t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, path := range regexp.MustCompile(`/(?:v1/[A-Za-z0-9/?=-]+|metrics\b|readyz\b)`).FindAllString(string(page), -1) {
		paths[strings.ReplaceAll(path, "CONTAINER", "shop-web-1")] = true
	}
	delete(paths, "/v1/services/") // and a variable
	for path := range paths {
		if code, body, err := h.daemon.get(path); err != nil || code != http.StatusOK {
			h.t.Errorf("%s: %s: %d %s %v", balancersPage, path, code, body, err)
		}
	}
	if len(paths) < 6 {
		h.t.Errorf("%s: found only the paths %v", balancersPage, paths)
	}
	names := regexp.MustCompile(`agent-send "(shop/[^"]+)\\n"`).FindAllStringSubmatch(string(page), -1)
	for _, name := range names {
		if answer, err := h.askAgent(name[1]); err != nil || answer != "up 100%\n" {
			h.t.Errorf("%s: agent-send %s: %q, %v", balancersPage, name[1], answer, err)
		}
	}
	if len(names) == 0 {
		h.t.Errorf("%s: found no agent-send", balancersPage)
	}
	h.nginxScript()
}

func (h *firstHour) askAgent(name string) (string, error) {
	conn, err := net.Dial("tcp", h.agent)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, name+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// nginxScript runs the script for nginx, with a program in nginx's place that notes how it was called.
func (h *firstHour) nginxScript() {
	h.t.Helper()
	blocks := pagetest.Read(h.t, balancersPage)
	i := slices.IndexFunc(blocks, func(b pagetest.Block) bool { return b.Path() == "/usr/local/sbin/healthd-nginx" })
	if i < 0 {
		h.t.Fatalf("%s: found no script for nginx", balancersPage)
	}
	bin, file, calls := filepath.Join(h.root, "bin"), filepath.Join(h.root, "upstream.conf"), filepath.Join(h.root, "nginx.calls")
	text := h.here.Replace(blocks[i].Text)
	script := strings.Replace(text, "file=/etc/nginx/conf.d/shop-web-upstream.conf", "file="+file, 1)
	if script == text {
		h.t.Fatalf("%s: the script does not name its file as expected", balancersPage)
	}
	err := errors.Join(os.Mkdir(bin, 0o755),
		os.WriteFile(filepath.Join(bin, "nginx"), []byte("#!/bin/sh\necho \"$*\" >>"+calls+"\n"), 0o755),
		os.WriteFile(filepath.Join(bin, "healthd-nginx"), []byte(script), 0o755))
	if err != nil {
		h.t.Fatal(err)
	}
	log := &lockedBuffer{}
	cmd := exec.Command(filepath.Join(bin, "healthd-nginx"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to end what it runs, too
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("the script for nginx printed:\n%s", log)
		}
	}()
	server := func(name string) string { return "    server " + h.address(name) + ":8080;\n" }
	both := []string{server("shop-web-1"), server("shop-web-2")}
	slices.Sort(both)
	h.eventuallyWritten(file, strings.Join(both, ""))
	inside(h.t, h.engine, "shop-web-1", "rm", "/www/ready")
	h.eventuallyWritten(file, server("shop-web-2"))
	inside(h.t, h.engine, "shop-web-2", "rm", "/www/ready")
	h.eventuallyWritten(file, "    server 127.0.0.1:9 down;\n")
	h.daemon.eventually(10*time.Second, "have nginx reloaded", func() error {
		got, err := os.ReadFile(calls)
		if want := strings.Repeat("-t -q\n-s reload\n", 3); err == nil && string(got) != want {
			err = fmt.Errorf("nginx was called with\n%s\nwant\n%s", got, want)
		}
		return err
	})
}

func (h *firstHour) eventuallyWritten(file, servers string) {
	h.t.Helper()
	h.daemon.eventually(20*time.Second, "have nginx's upstream written", func() error {
		got, err := os.ReadFile(file)
		if want := "upstream shop-web {\n" + servers + "}\n"; err == nil && string(got) != want {
			err = fmt.Errorf("it is\n%s\nwant\n%s", got, want)
		}
		return err
	})
}
