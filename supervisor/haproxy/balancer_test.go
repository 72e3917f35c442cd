package haproxy

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
)

var program = flag.String("haproxy", "haproxy", "the HAProxy that the tests start")

// balancer is a real HAProxy of the test's own.
type balancer struct {
	t      testing.TB
	dir    string
	log    *os.File
	cmd    *exec.Cmd
	exited chan struct{}

	elsewhere bool // the next process has a network of its own, as in a container

	mu    sync.Mutex
	ports map[string]int // by letter
}

// startBalancer starts HAProxy with these backends for a test of ring two. Agent checks go where nobody
// answers, so it keeps its last state.
func startBalancer(t testing.TB, backends string) *balancer {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	return startSpine(t, backends)
}

// startSpine is startBalancer for a test of ring one.
func startSpine(t testing.TB, backends string) *balancer {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-ha") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{t: t, dir: dir, ports: map[string]int{}}
	text := fmt.Sprintf("global\n  stats socket %s level admin\n  stats socket %s level operator\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 10s\n  timeout server 10s\n%s\n",
		b.socket(), b.operatorSocket(), backends)
	if err := os.WriteFile(filepath.Join(dir, "cfg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if b.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() {
		b.kill()
		defer os.RemoveAll(dir)
		defer b.log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(b.log.Name())
			t.Logf("log of HAProxy, the end:\n%s", text[max(0, len(text)-10_000):])
		}
	})
	return b
}

func (b *balancer) socket() string         { return filepath.Join(b.dir, "admin.sock") }
func (b *balancer) operatorSocket() string { return filepath.Join(b.dir, "weak.sock") }

// start starts a new process. HAProxy listens when it returns.
func (b *balancer) start() {
	b.t.Helper()
	b.launch()
	patience.Until(b.t, "HAProxy listens", func() error { _, err := b.try("show info"); return err })
}

// reload starts a new process that replaces the old one, which goes on until its last
// connection is over (haproxy -sf).
func (b *balancer) reload() {
	b.t.Helper()
	before, err := b.try("show info")
	if err != nil {
		b.t.Fatal(err)
	}
	old, _, err := readInfo(before)
	if err != nil {
		b.t.Fatal(err)
	}
	exited := b.exited
	b.launch("-sf", old.pid)
	patience.Until(b.t, "the new HAProxy listens", func() error {
		answer, err := b.try("show info")
		if err == nil && strings.Contains(answer, "Pid: "+old.pid+"\n") {
			err = errors.New("it is the old one")
		}
		return err
	})
	<-exited
}

func (b *balancer) launch(args ...string) {
	b.t.Helper()
	path := *program
	if found, err := exec.LookPath(path); err == nil {
		path = found
	} else if path == "haproxy" {
		path = "/usr/sbin/haproxy" // not on everybody's PATH
	}
	b.cmd = exec.Command(path, append([]string{"-db", "-f", filepath.Join(b.dir, "cfg")}, args...)...)
	if b.elsewhere {
		b.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	}
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatalf("cannot start haproxy (install it with scripts/prerequisites test): %v", err)
	}
	exited, cmd := make(chan struct{}), b.cmd
	b.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

func (b *balancer) kill() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.exited:
	case <-time.After(patience.Limit):
		_ = b.cmd.Process.Kill()
		<-b.exited
	}
}

// try sends one command and returns the answer.
func (b *balancer) try(command string) (string, error) {
	conn, err := net.Dial("unix", b.socket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return strings.TrimSpace(string(answer)), err
}

// runCommand is a command that somebody gives by hand.
func (b *balancer) runCommand(command string) {
	b.t.Helper()
	if answer, err := b.try(command); err != nil || answer != "" {
		b.t.Fatalf("HAProxy answers %q with %q, %v", command, answer, err)
	}
}

// port returns the port at which the application of that letter listens.
func (b *balancer) port(letter string) int {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if port, ok := b.ports[letter]; ok {
		return port
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { ln.Close() })
	b.ports[letter] = ln.Addr().(*net.TCPAddr).Port
	return b.ports[letter]
}

// letter is the other way round; what is no application's it leaves as it is.
func (b *balancer) letter(address string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for letter, port := range b.ports {
		if address == fmt.Sprintf("127.0.0.1:%d", port) {
			return letter
		}
	}
	return address
}

// servers returns what HAProxy shows of a backend.
func (b *balancer) servers(backend string) ([]*server, error) {
	state, err := b.try("show servers state " + backend)
	if err != nil {
		return nil, err
	}
	stat, err := b.try("show stat " + backend + " 4 -1")
	if err != nil {
		return nil, err
	}
	backends, err := readServers(state)
	if err != nil {
		return nil, err
	}
	_, err = readStat(stat, backends[backend])
	return backends[backend], err
}

// show returns the same as text: "c1 A UP 100", sorted by name.
func (b *balancer) show(backend string) ([]string, error) {
	servers, err := b.servers(backend)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range servers {
		status := s.status
		switch {
		case strings.HasPrefix(status, "UP "):
			status = "UP" // a check is about to be made
		case strings.HasPrefix(status, "DRAIN "):
			status = "DRAIN" // which it says first
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d", s.name, b.letter(fmt.Sprintf("%s:%d", s.address, s.port)), status, s.weight))
	}
	slices.Sort(lines)
	return lines, nil
}

// waitForServers waits until HAProxy shows just these servers.
func (b *balancer) waitForServers(backend string, want ...string) {
	b.t.Helper()
	patience.Until(b.t, "HAProxy shows it", func() error {
		got, err := b.show(backend)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return err
	})
}
