package docs

import (
	"healthd/e2e/patience"

	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"healthd/docs/pagetest"
	"healthd/e2e/harness"
)

const balancersPage = "../../docs/balancers.md"

// HAProxy accepts every configuration of the pages.
func TestHAProxyAcceptsThePages(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), harness.FindHAProxy(t)
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

// balancers asks the host of the first hour for all that docs/balancers.md has balancers ask.
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
		if code, body, err := h.daemon.Get(path); err != nil || code != http.StatusOK {
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
}

func (h *firstHour) askAgent(name string) (string, error) {
	conn, err := net.Dial("tcp", h.agent)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience.Limit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, name+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
