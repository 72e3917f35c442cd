package dns

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"healthd/e2e/patience"
	"healthd/supervisor"
)

var program = flag.String("haproxy", "haproxy", "the HAProxy that the tests start")

// startHAProxy starts a HAProxy of the test's own, which asks nameserver about the service shop/web. It returns a function
// that shows the addresses that its servers have.
func startHAProxy(t *testing.T, nameserver string, slots int) (servers func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-dns") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "admin.sock"), filepath.Join(dir, "cfg")
	text := strings.NewReplacer("tcp@127.0.0.1:8653", nameserver, "10 _http", fmt.Sprint(slots)+" _http").Replace(documented(t)) +
		"\ndefaults\n  timeout connect 1s\n  timeout client 10s\n  timeout server 10s\nglobal\n  stats socket " + socket + " level admin\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := *program
	if found, err := exec.LookPath(path); err == nil {
		path = found
	} else if path == "haproxy" {
		path = "/usr/sbin/haproxy" // not on everybody's PATH
	}
	cmd := exec.Command(path, "-db", "-f", file)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start haproxy (install it with scripts/prerequisites test): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("HAProxy says\n%s", log.String())
		}
	})
	return func() string {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "show servers state web\n")
		answer, _ := io.ReadAll(conn)
		return serversOf(string(answer))
	}
}

// documented returns the configuration of docs/dns.md.
func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/dns.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```haproxy\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/dns.md has no configuration of HAProxy")
	}
	return text
}

// serversOf returns address:port of all servers that are up, sorted.
func serversOf(state string) string {
	var all []string
	for line := range strings.Lines(state) {
		f := strings.Fields(line)
		if len(f) < 20 || f[0] == "#" || f[5] == "0" {
			continue
		}
		all = append(all, f[4]+":"+f[18])
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func until(t *testing.T, what string, get func() string, want string) {
	t.Helper()
	patience.Until(t, what, func() error { // HAProxy tells nobody
		if got := get(); got != want {
			return fmt.Errorf("the servers are %q, want %q", got, want)
		}
		return nil
	})
}

// A real HAProxy fills the servers of a template from healthd's answers.
func TestHAProxy(t *testing.T) {
	for _, protocol := range []string{"tcp@", ""} {
		if testing.Short() && protocol == "" {
			continue
		}
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			board := supervisor.NewBoard(synced, view("web-1", "shop/web", "127.0.1.1"), view("web-2", "shop/web", "127.0.1.2", port(8081)), view("web-3", "shop/web", "127.0.1.3", unready))
			servers := startHAProxy(t, protocol+start(t, New(board, &history{}), 4), 3)
			until(t, "at first", servers, "127.0.1.1:8080 127.0.1.2:8081")
			board.Show(view("web-3", "shop/web", "127.0.1.3"))
			until(t, "one is ready", servers, "127.0.1.1:8080 127.0.1.2:8081 127.0.1.3:8080")
			board.Show(view("web-1", "shop/web", "127.0.1.1", draining))
			until(t, "one drains", servers, "127.0.1.2:8081 127.0.1.3:8080")
			board.Show(view("web-2", "shop/web", "127.0.1.22", port(8082)))
			until(t, "one has another address", servers, "127.0.1.22:8082 127.0.1.3:8080")
			board.Remove(idOf("web-3"))
			until(t, "one is gone", servers, "127.0.1.22:8082")
			board.Remove(idOf("web-1"))
			board.Remove(idOf("web-2"))
			until(t, "all are gone", servers, "")
		})
	}
}

// As many as docs/dns.md says fit into what HAProxy takes at once.
func TestHAProxyLargeService(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-balancers runs it")
	}
	t.Parallel()
	const members = 120
	s, _ := server(many("shop/web", members)...)
	servers := startHAProxy(t, "tcp@"+start(t, s, 4), members)
	count := func() string { return fmt.Sprint(len(strings.Fields(servers()))) }
	until(t, "all are there", count, fmt.Sprint(members))
}
