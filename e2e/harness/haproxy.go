package harness

import (
	"healthd/e2e/ports"

	"healthd/e2e/patience"

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

const HAProxyExamples = "../../configs/examples/haproxy"

var haproxyProgram = flag.String("haproxy", "", "the `program` that is the HAProxy of the tests; empty: the one that is installed")

// HAProxy is a private HAProxy.
type HAProxy struct {
	T      *testing.T
	Path   string
	Args   []string // besides those that say what it is to do
	Dir    string
	URL    string
	Cmd    *exec.Cmd
	Log    *Buffer
	exited chan struct{}
}

// FindHAProxy returns the path of HAProxy, and logs its version. Without one the test fails.
func FindHAProxy(t *testing.T) string {
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
	t.Fatalf("cannot find %s: run the target of the Makefile, which installs it", names[0])
	return ""
}

// StartHAProxy starts HAProxy with one of the examples, with the given words replaced. It
// is killed at the end of the test.
func StartHAProxy(t *testing.T, example string, replace ...string) *HAProxy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(HAProxyExamples, example))
	if err != nil {
		t.Fatal(err)
	}
	return StartHAProxyWith(t, string(text), replace...)
}

// StartHAProxyWith is StartHAProxy with that configuration.
func StartHAProxyWith(t *testing.T, text string, replace ...string) *HAProxy {
	t.Helper()
	h := NewHAProxy(t)
	h.StartWith(text, replace...)
	return h
}

// NewHAProxy makes a HAProxy that does not run yet.
func NewHAProxy(t *testing.T) *HAProxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-ha") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &HAProxy{T: t, Path: FindHAProxy(t), Dir: dir, URL: "http://" + ports.Address(t), Log: &Buffer{}}
}

// StartWith starts it with a configuration, in which words are replaced. It is killed at the end of the test.
func (h *HAProxy) StartWith(text string, replace ...string) {
	h.T.Helper()
	// A busy machine may answer late. Nothing here waits for a check of HAProxy's own to time out.
	replace = append(replace, "timeout check 2s", "timeout check 30s", "/run/haproxy/admin.sock", h.Socket(), "bind 127.0.0.1:8000", "bind "+strings.TrimPrefix(h.URL, "http://"))
	config := strings.NewReplacer(replace...).Replace(text)
	if err := os.WriteFile(h.config(), []byte(config), 0o600); err != nil {
		h.T.Fatal(err)
	}
	h.Start()
	h.T.Cleanup(func() {
		h.Kill()
		if h.T.Failed() {
			h.T.Logf("log of HAProxy:\n%s", h.Log)
		}
	})
	patience.Until(h.T, "HAProxy answers", func() error {
		select {
		case <-h.exited:
			h.T.Fatal("HAProxy has ended")
		default:
		}
		_, err := h.Query("show info")
		return err
	})
}

func (h *HAProxy) Socket() string { return filepath.Join(h.Dir, "admin.sock") }

func (h *HAProxy) config() string { return filepath.Join(h.Dir, "haproxy.cfg") }

// In is the HAProxy for a subtest, which fails for it.
func (h *HAProxy) In(t *testing.T) *HAProxy {
	sub := *h
	sub.T = t
	return &sub
}

func (h *HAProxy) Start() {
	h.T.Helper()
	h.Cmd = exec.Command(h.Path, append([]string{"-db", "-f", h.config()}, h.Args...)...)
	h.Cmd.Stdout, h.Cmd.Stderr = h.Log, h.Log
	if err := h.Cmd.Start(); err != nil {
		h.T.Fatal(err)
	}
	exited, cmd := make(chan struct{}), h.Cmd
	h.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

// Kill kills HAProxy, as the end of its service's stop does.
func (h *HAProxy) Kill() {
	_ = h.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.exited:
	case <-time.After(patience.Limit):
		_ = h.Cmd.Process.Kill()
		<-h.exited
	}
}

// Query sends a command to the stats socket and returns the answer.
func (h *HAProxy) Query(command string) (string, error) {
	conn, err := net.Dial("unix", h.Socket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience.Limit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return strings.TrimSpace(string(answer)), err
}

// RunCommand is query for a command whose answer is empty on success.
func (h *HAProxy) RunCommand(command string) {
	h.T.Helper()
	if answer, err := h.Query(command); err != nil || answer != "" {
		h.T.Fatalf("HAProxy answers %q with %q, %v", command, answer, err)
	}
}

// Server returns the name and status of the server at an address: "UP", "UP 0" without
// weight, "DOWN (agent)".
func (h *HAProxy) Server(address string) (name, status string, err error) {
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

// Sessions is how many HAProxy has with the server at an address.
func (h *HAProxy) Sessions(address string) (string, error) {
	row, err := h.row(address)
	return row["scur"], err
}

// row is all that HAProxy shows of the server at an address.
func (h *HAProxy) row(address string) (map[string]string, error) {
	rows, err := h.Rows()
	for _, row := range rows {
		if row["addr"] == address {
			return row, nil
		}
	}
	return nil, cmp.Or(err, fmt.Errorf("HAProxy has no server at %s", address))
}

// Rows is all that HAProxy shows of the servers of the backend.
func (h *HAProxy) Rows() (all []map[string]string, err error) {
	answer, err := h.Query("show stat web 4 -1")
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

// UpOrSo is UP, whatever the next check is about to change.
const UpOrSo = "UP…"

// CheckServers returns nil when HAProxy shows all of the servers, given by address, as wanted.
// While a check is about to change its mind, a number follows the status.
func (h *HAProxy) CheckServers(want string, servers ...string) error {
	for _, address := range servers {
		name, status, err := h.Server(address)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(status, strings.TrimSuffix(want, "…")) || want == "UP" && status != "UP" {
			return fmt.Errorf("HAProxy shows %s at %s as %s, want %s", name, address, status, want)
		}
	}
	return nil
}

// OldProcessEnded returns nil when no process before this one can still be finishing requests.
func (h *HAProxy) OldProcessEnded() error {
	answer, err := h.Query("show info")
	if err != nil {
		return err
	}
	var seconds int
	_, uptime, _ := strings.Cut(answer, "Uptime_sec: ")
	if _, err := fmt.Sscan(uptime, &seconds); err != nil {
		return err
	}
	if age := time.Duration(seconds) * time.Second; age <= 30*time.Second {
		return fmt.Errorf("it is %v old", age)
	}
	return nil
}
