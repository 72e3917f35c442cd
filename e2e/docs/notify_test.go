package docs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// notification is what these tests look at of a message.
type notification struct {
	ID, Status, Title, Text string
	Entries                 []struct{ Status, Reason, Container, Service, Project, Cause, Next string }
}

// pager is a webhook that keeps what it gets.
type pager struct {
	url, key string

	mu     sync.Mutex
	status int // of its answers
	tried  []string
	got    []notification
	wrong  []string
}

const pagerToken = "very-secret-token"

func newPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{status: http.StatusOK, key: filepath.Join(t.TempDir(), "key")}
	if err := os.WriteFile(p.key, []byte("signing-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	p.url = server.URL + "/" + pagerToken
	return p
}

func (p *pager) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var n notification
	if err == nil {
		err = json.Unmarshal(body, &n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	mac := hmac.New(sha256.New, []byte("signing-secret"))
	mac.Write([]byte(r.Header.Get("X-Healthd-Timestamp") + "." + string(body)))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("X-Healthd-Signature") != want {
		p.wrong = append(p.wrong, fmt.Sprintf("%s: %v", body, err))
	}
	p.tried = append(p.tried, n.ID)
	// One that was answered just before a kill comes again, with its ID, and may not keep back the next one.
	if slices.ContainsFunc(p.got, func(o notification) bool { return o.ID == n.ID }) {
		return
	}
	if p.status == http.StatusOK {
		p.got = append(p.got, n)
	}
	w.WriteHeader(p.status)
}

func (p *pager) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// titles returns the titles of what came, without the host.
func (p *pager) titles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, n := range p.got {
		_, title, _ := strings.Cut(n.Title, "] ")
		title, _, _ = strings.Cut(title, ", after")
		all = append(all, title)
	}
	return all
}

// has waits until these messages have come, and no others.
func (p *pager) has(d *harness.Daemon, want ...string) {
	d.T.Helper()
	d.Eventually("send "+strings.Join(want, ", "), func() error {
		if got := p.titles(); !slices.Equal(got, want) {
			return fmt.Errorf("it has sent %q", got)
		}
		return nil
	})
}

// keeps checks that no further message comes for a while.
func (p *pager) keeps(d *harness.Daemon, during time.Duration) {
	d.T.Helper()
	want := p.titles()
	end := time.After(during)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if got := p.titles(); !slices.Equal(got, want) {
			d.T.Fatalf("it got %q, and then %q", want, got)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

func (p *pager) config(name, more string) string {
	return fmt.Sprintf("[[notify]]\nname = %q\nwebhook = %q\nsecret_file = %q\ngroup_wait = \"1s\"\n%s\n", name, p.url, p.key, more)
}

const loopSpec = `
[[spec]]
name = "loop"
match = { e2e = "notify" }
[spec.backoff]
initial     = "1s"
max         = "4s"
reset_after = "3s"
`

// A crash loop is one message, and its end is one, also when healthd is killed in between. What cannot be delivered is
// delivered by the next daemon. A secret is shown nowhere.
func TestNotifications(t *testing.T) {
	t.Parallel()
	p, e := newPager(t), harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, p.config("oncall", `reasons = ["CrashLoop"]`)+loopSpec) // on a slow machine the service is down, too
	run := func(name, command string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "notify"}, Cmd: []string{"sh", "-c", command}})
	}
	run("told-mends", "echo >> /runs; test $(wc -l < /runs) -gt 7 && exec sleep 1000; exit 7")
	p.has(d, "CrashLoop: told-mends")
	if n := p.got[0]; n.Status != "begun" || n.Entries[0].Cause != "it ended with exit code 7 (Error)" || !strings.Contains(n.Text, "healthd explain told-mends") {
		t.Errorf("got %+v", n)
	}
	d.Kill()
	d.Restart()
	p.has(d, "CrashLoop: told-mends", "Resolved: CrashLoop: told-mends")

	id := run("told-goes", "exit 8")
	p.has(d, "CrashLoop: told-mends", "Resolved: CrashLoop: told-mends", "CrashLoop: told-goes")
	d.Kill()
	e.Remove(t, id)
	p.answer(http.StatusInternalServerError)
	d.Restart()
	d.Eventually("try to tell that it is over", func() error { return p.triedNew(3) })
	d.Kill()
	pending := p.newest()
	p.answer(http.StatusOK)
	d.Restart()
	all := []string{"CrashLoop: told-mends", "Resolved: CrashLoop: told-mends", "CrashLoop: told-goes", "Resolved: CrashLoop: told-goes"}
	p.has(d, all...)
	if p.newest() != pending {
		t.Error("the message of the daemon that was killed got another ID")
	}
	p.keeps(d, 5*time.Second)
	p.check(d)
}

// triedNew says whether a message was tried that is not among the first n that were delivered.
func (p *pager) triedNew(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.tried[len(p.tried)-1]; len(p.got) < n || last == p.got[n-1].ID {
		return fmt.Errorf("it has tried %q", p.tried)
	}
	return nil
}

func (p *pager) newest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried[len(p.tried)-1]
}

// check looks for wrong signatures, and for secrets in what healthd shows.
func (p *pager) check(d *harness.Daemon) {
	d.T.Helper()
	p.mu.Lock()
	for _, wrong := range p.wrong {
		d.T.Errorf("wrong: %s", wrong)
	}
	p.mu.Unlock()
	_, metrics, err := d.Get("/metrics")
	if err != nil {
		d.T.Fatal(err)
	}
	_, events, _ := d.Get("/v1/events")
	checked, _ := d.Run("check")
	kept, err := os.ReadFile(filepath.Join(filepath.Dir(d.Config), "state", "notify.json"))
	if err != nil {
		d.T.Fatal(err)
	}
	for what, text := range map[string]string{"log": d.Log.String(), "metrics": metrics, "events": events, "check": checked, "notify.json": string(kept)} {
		if strings.Contains(text, pagerToken) || strings.Contains(text, "signing-secret") {
			d.T.Errorf("the %s shows a secret:\n%s", what, text)
		}
	}
}

// healthd notify test says of each receiver what came of it. A command that hangs, and one that is not there, keep the
// others from nothing. A reload takes receivers over.
func TestNotifyTest(t *testing.T) {
	t.Parallel()
	p, e := newPager(t), harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, "")
	if out, code := d.Run("notify", "test"); code != 1 || !strings.Contains(out, "the configuration has no [[notify]]") {
		t.Errorf("without a receiver: %d: %s", code, out)
	}
	refusesChatURL(d, "slack://"+pagerToken+"@nowhere")
	file := filepath.Join(t.TempDir(), "message")
	if out, code := notifyReload(d, p.config("oncall", "")+`
[[notify]]
name    = "page"
command = ["sh", "-c", 'cat > "$1"', "sh", "`+file+`"]
[[notify]]
name    = "hangs"
command = ["sleep", "1000"]
timeout = "1s"
[[notify]]
name = "chat"
url  = "generic://127.0.0.1:1/`+pagerToken+`?disabletls=yes"
`); code != 0 {
		t.Fatalf("reload: %d: %s", code, out)
	}
	out, code := d.Run("notify", "test")
	for _, want := range []string{"oncall: delivered in ", "page: delivered in ", "hangs: failed after ", ": it takes longer than 1s", "chat: failed after ", "healthd: cannot notify 2 of 4 receivers"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if code != 1 || strings.Contains(out, pagerToken) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := d.Run("notify", "test", "oncall"); code != 0 || !strings.HasPrefix(out, "oncall: delivered") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := d.Run("notify", "test", "nobody"); code != 1 || !strings.Contains(out, `"nobody"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := d.Run("notify"); code != 2 {
		t.Errorf("exit code %d: %s", code, out)
	}
	message, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(message), `"status":"test"`) {
		t.Errorf("the command got %s, %v", message, err)
	}
	if got := p.titles(); !slices.Equal(got, []string{"Test of healthd", "Test of healthd"}) {
		t.Errorf("the webhook got %q", got)
	}
	p.check(d)
}

// refusesChatURL checks that a URL which no service takes is found before anybody needs it, and is not shown.
func refusesChatURL(d *harness.Daemon, url string) {
	d.T.Helper()
	bad := fmt.Sprintf("[[notify]]\nname = \"bad\"\nurl = %q\n", url)
	reloaded, code := notifyReload(d, bad)
	checked, checkCode := d.Run("check")
	for _, out := range []string{reloaded, checked} {
		if !strings.Contains(out, ": notify[#1].url: is no URL as shoutrrr wants it for slack") || strings.Contains(out, pagerToken) {
			d.T.Errorf("got %s", out)
		}
	}
	if code != 1 || checkCode != 1 {
		d.T.Errorf("exit codes %d of the reload, %d of the check", code, checkCode)
	}
	d.Rewrite(func(text string) string { return strings.TrimSuffix(text, bad) })
}

// notifyReload adds to the configuration, and reloads it.
func notifyReload(d *harness.Daemon, more string) (output string, code int) {
	d.T.Helper()
	d.Rewrite(func(text string) string { return text + more })
	return d.Run("reload")
}

// A service without a ready container, an engine that is away and a container that was given up are told with their names.
func TestNotifiedIncidents(t *testing.T) {
	t.Parallel()
	p, e := newPager(t), dockertest.Start(t)
	d := harness.StartDaemon(t, e.Endpoint, p.config("shop", `services = ["shop/*"]`)+p.config("host", `reasons = ["RuntimeLost"]`)+`
[[spec]]
name    = "sick"
match   = { "com.docker.compose.service" = "sick" }
give_up = { restarts = 1, within = "1h" }
[spec.readiness]
exec   = { command = ["test", "-e", "/ready"] }
period = "500ms"
`)
	s := &stage{t: t, e: e, d: d}
	s.composeIn("shop", "sick", "1", dockertest.RunOptions{Cmd: []string{"sh", "-c", "touch /ready; sleep 3; exit 9"}})
	p.has(d, "GaveUp: shop-sick-1", "ServiceDown: service shop/sick")
	if got := p.got[0].Entries[0]; got.Service != "shop/sick" || got.Project != "shop" || !strings.Contains(got.Next, "healthd resume shop-sick-1") {
		t.Errorf("got %+v", got)
	}
	e.Kill(t)
	p.has(d, "GaveUp: shop-sick-1", "ServiceDown: service shop/sick", "RuntimeLost: runtime docker")
	e.Up(t)
	p.has(d, "GaveUp: shop-sick-1", "ServiceDown: service shop/sick", "RuntimeLost: runtime docker", "Resolved: RuntimeLost: runtime docker")
	p.keeps(d, 3*time.Second)
	p.check(d)
}
