package e2e

import (
	"cmp"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const haproxyExamples = "../configs/examples/haproxy"

var haproxyProgram = flag.String("haproxy", "", "the `program` that is the HAProxy of the tests; empty: the one that is installed")

// haproxy is a private HAProxy.
type haproxy struct {
	t      *testing.T
	path   string
	args   []string // besides those that say what it is to do
	dir    string
	url    string
	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
}

// findHAProxy returns the path of HAProxy, and logs its version. Without one the test fails.
func findHAProxy(t *testing.T) string {
	t.Helper()
	names := []string{"haproxy", "/usr/sbin/haproxy"}
	if *haproxyProgram != "" {
		names = []string{*haproxyProgram}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := exec.Command(path, "-v").Output()
		if err != nil {
			t.Fatalf("cannot run %s: %v", path, err)
		}
		line, _, _ := strings.Cut(string(version), "\n")
		t.Logf("%s: %s", path, line)
		return path
	}
	t.Fatalf("cannot find %s: install it with scripts/prerequisites test", names[0])
	return ""
}

// startHAProxy starts HAProxy with one of the examples, with the given words replaced. It
// is killed at the end of the test.
func startHAProxy(t *testing.T, example string, replace ...string) *haproxy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(haproxyExamples, example))
	if err != nil {
		t.Fatal(err)
	}
	return startHAProxyWith(t, string(text), replace...)
}

// startHAProxyWith is startHAProxy with that configuration.
func startHAProxyWith(t *testing.T, text string, replace ...string) *haproxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-ha") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	front := freeAddress(t)
	h := &haproxy{t: t, path: findHAProxy(t), dir: dir, url: "http://" + front, log: &lockedBuffer{}}
	replace = append(replace, "/run/haproxy/admin.sock", h.socket(), "bind 127.0.0.1:8000", "bind "+front)
	config := strings.NewReplacer(replace...).Replace(text)
	if err := os.WriteFile(h.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	t.Cleanup(func() {
		h.kill()
		if t.Failed() {
			t.Logf("log of HAProxy:\n%s", h.log)
		}
	})
	return h
}

func (h *haproxy) socket() string { return filepath.Join(h.dir, "admin.sock") }
func (h *haproxy) config() string { return filepath.Join(h.dir, "haproxy.cfg") }

// in is the HAProxy for a subtest, which fails for it.
func (h *haproxy) in(t *testing.T) *haproxy {
	sub := *h
	sub.t = t
	return &sub
}

func (h *haproxy) start() {
	h.t.Helper()
	h.cmd = exec.Command(h.path, append([]string{"-db", "-f", h.config()}, h.args...)...)
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	exited, cmd := make(chan struct{}), h.cmd
	h.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

// kill kills HAProxy, as the end of its service's stop does.
func (h *haproxy) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.exited:
	case <-time.After(10 * time.Second):
		_ = h.cmd.Process.Kill()
		<-h.exited
	}
}

// query sends a command to the stats socket and returns the answer.
func (h *haproxy) query(command string) (string, error) {
	conn, err := net.Dial("unix", h.socket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return strings.TrimSpace(string(answer)), err
}

// runCommand is query for a command whose answer is empty on success.
func (h *haproxy) runCommand(command string) {
	h.t.Helper()
	if answer, err := h.query(command); err != nil || answer != "" {
		h.t.Fatalf("HAProxy answers %q with %q, %v", command, answer, err)
	}
}

// server returns the name and status of the server at an address: "UP", "UP 0" without
// weight, "DOWN (agent)".
func (h *haproxy) server(address string) (name, status string, err error) {
	row, err := h.row(address)
	if err != nil {
		return "", "", err
	}
	status = row["status"]
	if strings.HasPrefix(status, "UP") && row["weight"] == "0" {
		status = "UP 0"
	}
	return row["svname"], status, nil
}

// sessions is how many HAProxy has with the server at an address.
func (h *haproxy) sessions(address string) (string, error) {
	row, err := h.row(address)
	return row["scur"], err
}

// row is all that HAProxy shows of the server at an address.
func (h *haproxy) row(address string) (map[string]string, error) {
	rows, err := h.rows()
	for _, row := range rows {
		if row["addr"] == address {
			return row, nil
		}
	}
	return nil, cmp.Or(err, fmt.Errorf("HAProxy has no server at %s", address))
}

// rows is all that HAProxy shows of the servers of the backend.
func (h *haproxy) rows() (all []map[string]string, err error) {
	answer, err := h.query("show stat web 4 -1")
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(answer, "# "))).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, errors.Join(errors.New("no table"), err)
	}
	for _, fields := range rows[1:] {
		row := map[string]string{}
		for i, name := range rows[0] {
			row[name] = fields[i]
		}
		all = append(all, row)
	}
	return all, nil
}

// upOrSo is UP, whatever the next check is about to change.
const upOrSo = "UP…"

// checkServers returns nil when HAProxy shows all of the servers, given by address, as wanted.
// While a check is about to change its mind, a number follows the status.
func (h *haproxy) checkServers(want string, servers ...string) error {
	for _, address := range servers {
		name, status, err := h.server(address)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(status, strings.TrimSuffix(want, "…")) || want == "UP" && status != "UP" {
			return fmt.Errorf("HAProxy shows %s at %s as %s, want %s", name, address, status, want)
		}
	}
	return nil
}

// HAProxy accepts the examples as they are.
func TestHAProxyAcceptsTheExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(haproxyExamples, "*.cfg"))
	if err != nil || len(files) != 3 {
		t.Fatalf("found the examples %v, %v", files, err)
	}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, filepath.Base(file)) // a HAProxy of another root sees no other files of the host
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(findHAProxy(t), "-c", "-f", copied).CombinedOutput()
		if err != nil || strings.Contains(string(out), "WARNING") {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
