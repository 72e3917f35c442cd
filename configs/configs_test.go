package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// write makes a directory of files and changes into it.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Who looks the group up can say where it is written.
func TestControlGroup(t *testing.T) {
	c := mustParse(t, "[listen]\nhttp = \"\"\ncontrol_group = \"docker\"\n")
	if c.Listen.ControlGroup != "docker" || c.ControlGroupPlace() != "healthd.toml:3" {
		t.Errorf("%q at %s", c.Listen.ControlGroup, c.ControlGroupPlace())
	}
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("healthd.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShippedFiles(t *testing.T) {
	c, err := Load([]string{"healthd.toml", "conf.d"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.specs) != 6 {
		t.Errorf("got %d specs, want 6", len(c.specs))
	}
	for _, warning := range c.Warnings() {
		t.Error(warning)
	}
	text, err := os.ReadFile("healthd.toml")
	if err != nil {
		t.Fatal(err)
	}
	// What is commented out must be right too.
	var lines []string
	for line := range strings.Lines(string(text)) {
		code := strings.TrimPrefix(line, "# ")
		if strings.HasPrefix(code, "[") || strings.Contains(code, " = ") && !strings.HasPrefix(code, "#") {
			lines = append(lines, code)
		}
	}
	c = mustParse(t, strings.Join(lines, ""))
	if len(c.specs) != 1 || len(c.Runtimes) != 2 || len(c.Notify) != 1 || len(lines) < 20 {
		t.Errorf("not everything was found in the comments: %d lines", len(lines))
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the examples %v, %v", files, err)
	}
	for _, file := range files {
		c, err := Load([]string{file})
		if err != nil {
			t.Error(err)
			continue
		}
		if len(c.specs) == 0 && len(c.Runtimes) > 0 {
			t.Errorf("%s: no spec", file)
		}
		for _, warning := range c.Warnings() {
			t.Errorf("%s: %v", file, warning)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, "")
	if got, want := c.Listen, (Listen{"127.0.0.1:8646", "127.0.0.1:8647", "/run/healthd/control.sock", nil, "", ""}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := c.State, (State{"/var/lib/healthd"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := c.Log, (Log{"info", "auto"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := c.Guard, (core.Guard{MaxRestarts: 10, Window: time.Minute, HostSuspect: true}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(c.HAProxy.Sockets) > 0 {
		t.Errorf("got %q, want no sockets", c.HAProxy.Sockets)
	}
	if got, want := c.Runtimes, []Runtime{{Name: "docker", Type: "docker", Relist: time.Minute, Exclusive: true}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRuntimes(t *testing.T) {
	c, err := Parse("healthd.toml", []byte(`
[[runtime]]
type = "containerd"
[[runtime]]
[[runtime]]
type = "containerd"
endpoint = "unix:///run/k3s/containerd/containerd.sock"
namespaces = ["k8s.io", "build-1"]
relist = "5s"
exclusive = false
`))
	want := []Runtime{
		{"containerd", "containerd", "unix:///run/containerd/containerd.sock", time.Minute, []string{"default"}, true},
		{"docker", "docker", "", time.Minute, nil, true},
		{"containerd-2", "containerd", "unix:///run/k3s/containerd/containerd.sock", 5 * time.Second, []string{"k8s.io", "build-1"}, false},
	}
	if err != nil || !reflect.DeepEqual(c.Runtimes, want) {
		t.Errorf("got %+v, %v; want %+v", c, err, want)
	}
}

// Two runtimes of one engine would restart its containers twice.
func TestRuntimesOfOneEngine(t *testing.T) {
	for _, pair := range [][2]string{
		{"unix:///run/containerd/containerd.sock", "unix:///run/containerd/containerd.sock"},
		{"unix:///run/containerd/containerd.sock", "unix:///var/run/containerd/containerd.sock"},
		{"unix:///run/containerd/containerd.sock", "unix:///run//containerd/./containerd.sock"},
		{"unix:///srv/c.sock", "unix:///srv/c.sock/"},
	} {
		_, err := Parse("healthd.toml", fmt.Appendf(nil, "[[runtime]]\ntype = \"containerd\"\nendpoint = %q\n[[runtime]]\ntype = \"containerd\"\nendpoint = %q\n", pair[0], pair[1]))
		if want := "healthd.toml:6: runtime[#2].endpoint: is also the endpoint of the runtime at healthd.toml:1"; err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", pair, err, want)
		}
	}
}

func TestLoadJoinsFiles(t *testing.T) {
	write(t, map[string]string{
		"healthd.toml":    "[listen]\nhttp = \"\"\n[[spec]]\nname = \"a\"\nmatch = { x = \"1\" }\n[[runtime]]\n[guard]\nwindow = \"10s\"\n",
		"conf.d/2.toml":   "guard.max_restarts = 0\nstate.dir = \"\"\n[[spec]]\nname = \"c\"\n[listen]\nagent = \"127.0.0.1:1\"\n",
		"conf.d/1.toml":   "[[spec]]\nname = \"b\"\n[[runtime]]\nendpoint = \"tcp://127.0.0.1:2375\"\nrelist = \"5s\"\n",
		"conf.d/x.txt":    "not read",
		"conf.d/.no.toml": "not read",
	})
	c, err := Load([]string{"healthd.toml", "conf.d"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range c.specs {
		names = append(names, s.name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("got specs %q, want a b c", got)
	}
	if got, want := c.Listen, (Listen{"", "127.0.0.1:1", defaultControl, nil, "", ""}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := c.Guard, (core.Guard{Window: 10 * time.Second, HostSuspect: true}); got != want || c.State.Dir != "" {
		t.Errorf("got %v and state in %q, want %v and none", got, c.State.Dir, want)
	}
	want := Runtime{"docker-2", "docker", "tcp://127.0.0.1:2375", 5 * time.Second, nil, true}
	if len(c.Runtimes) != 2 || c.Runtimes[0].Name != "docker" || !reflect.DeepEqual(c.Runtimes[1], want) {
		t.Errorf("got %v, want docker and %v", c.Runtimes, want)
	}
}

func TestLoadReportsAllFiles(t *testing.T) {
	write(t, map[string]string{
		"1.toml": "[listen]\nhttp = \"\"\n[guard]\nwindow = \"1s\"\n[state]\ndir = \"\"\n[[spec]]\nname = \"web\"\n",
		"2.toml": "[listen\n",
		"3.toml": "listen.http = \"127.0.0.1:1\"\nguard.window = \"1s\"\nstate.dir = \"/s\"\n[[spec]]\nname = \"web\"\n[spec.backoff]\nmax = 1\n",
	})
	_, err := Load([]string{"1.toml", "2.toml", "3.toml", "4.toml"})
	want := `2.toml:1: expected '.' or ']' to end table name, but got '\n' instead
3.toml:1: listen.http: is already set at 1.toml:2
3.toml:2: guard.window: is already set at 1.toml:4
3.toml:3: state.dir: is already set at 1.toml:6
3.toml:5: spec[web].name: is already the name of the spec at 1.toml:7
3.toml:7: spec[web].backoff.max: must be a duration such as "10s", is 1 (an integer)
4.toml: cannot be read: no such file or directory`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestDefaultPathsMayBeAbsent(t *testing.T) {
	t.Chdir(t.TempDir())
	l := newLoader()
	for _, path := range DefaultPaths() {
		l.path("."+path, true)
	}
	if _, err := l.config(); err != nil {
		t.Error(err)
	}
}

// ourOwn are the problems with what the library takes.
var ourOwn = regexp.MustCompile(`: (is already set at f\.toml:\d+|is an array of tables at f\.toml:\d+: use \[\[ \]\] to add to it|is nested more than 64 levels deep|must be UTF-8 text, has the byte 0xf[ef])$`)

// checkTree compares what parseTOML makes of a text with what the library's own
// decoder does.
func checkTree(t *testing.T, data []byte) {
	t.Helper()
	var want map[string]any
	accepted := toml.Unmarshal(data, &want) == nil
	root, err := parseTOML(place{file: "f.toml"}, data)
	if err != nil {
		// The library takes these where it should not.
		if accepted && !ourOwn.MatchString(err.Error()) {
			t.Errorf("%q is refused: %v", data, err)
		}
		return
	}
	if !accepted {
		t.Fatalf("%q is accepted", data)
	}
	if !sameTree(root, want, strings.Split(string(data), "\n")) {
		t.Errorf("%q is not read as %v", data, want)
	}
}

// sameTree also wants each key on its line, unless an escape may spell it.
func sameTree(n *node, want any, lines []string) bool {
	if n == nil || n.at.line < 1 || n.at.line > len(lines) {
		return false
	}
	switch want := want.(type) {
	case map[string]any:
		for key, v := range want {
			if !sameTree(n.fields[key], v, lines) {
				return false
			}
			line := lines[n.fields[key].at.line-1]
			if !strings.Contains(line, key) && !strings.Contains(line, `\`) {
				return false
			}
		}
		return n.kind == tableKind && len(n.fields) == len(want)
	case []map[string]any:
		return sameItems(n, want, lines)
	case []any:
		return sameItems(n, want, lines)
	case string:
		return n.kind == stringKind && n.text == want
	case int64:
		return n.kind == integerKind && n.number == want
	case bool:
		return n.kind == boolKind && n.text == strconv.FormatBool(want)
	}
	return n.kind == otherKind
}

func sameItems[T any](n *node, want []T, lines []string) bool {
	for i, v := range want {
		if i >= len(n.items) || !sameTree(n.items[i], v, lines) {
			return false
		}
	}
	return n.kind == arrayKind && len(n.items) == len(want)
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.toml")
	shipped, _ := filepath.Glob("conf.d/*.toml")
	for _, file := range append(files, shipped...) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(webSpec + hookSpec))
	f.Add([]byte(sections + groupSpec))
	f.Add([]byte(warnedSpecs))
	f.Add([]byte(haproxySpec))
	f.Add([]byte(layered))
	f.Add([]byte(wholeFleet))
	f.Add([]byte("runtime = []\n" + fleetText))
	for _, text := range fuzzedLayers() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkTree(t, data)
		c, err := Parse("f.toml", data)
		lines := 1 + strings.Count(string(data), "\n")
		problems, _ := errors.AsType[Problems](err)
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.File != "f.toml" {
				t.Errorf("no such place of %d lines: %v", lines, p)
			}
			if strings.ContainsFunc(p.Text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("control characters in %q", p.Text)
			}
		}
		if err != nil {
			return
		}
		for _, warning := range c.Warnings() {
			if !strings.HasPrefix(warning, "f.toml:") || strings.Contains(warning, "\n") {
				t.Errorf("bad warning %q", warning)
			}
		}
		if keys := c.NeedsRestart(c); len(keys) > 0 || c.Guard.MaxRestarts < 0 || c.Guard.Window < time.Second {
			t.Errorf("got %v and guard %+v", keys, c.Guard)
		}
		for _, s := range c.specs {
			if !s.claimable || s.partial { // labels may complete a layer
				continue
			}
			_, err := c.Resolve(runtime.Traits{Name: "c", Labels: map[string]string{specLabel: s.name}})
			// A label may give the port.
			portless := s.node.below(backendPath) != nil && s.node.below("publish.port") == nil
			if (err != nil) != portless {
				t.Errorf("a spec without problems has some later: %v", err)
			}
		}
	})
}

// A pipe would keep its reader waiting for ever.
func TestPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "a.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]string{dir})
	if err == nil || !strings.Contains(err.Error(), "a.toml: cannot be read: not a regular file") {
		t.Errorf("got %v", err)
	}
}

func TestByteOrderMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bom.toml")
	if err := os.WriteFile(file, []byte("\xef\xbb\xbf[log]\nlevel = \"warn\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load([]string{file}); err != nil || c.Log.Level != "warn" {
		t.Errorf("got %v, %v", c, err)
	}
}
