package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// filesIn writes a directory of files.
func filesIn(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compose checks the files of a directory, whose path is left out of what is printed.
func compose(dir string, names ...string) result {
	args := []string{"check", "--config", filepath.Join(dir, "healthd.toml")}
	for _, name := range names {
		if !strings.Contains(name, "://") {
			name = filepath.Join(dir, name)
		}
		args = append(args, "--compose", name)
	}
	got := inside(args...)
	got.stdout, got.stderr = strings.ReplaceAll(got.stdout, dir+"/", ""), strings.ReplaceAll(got.stderr, dir+"/", "")
	return got
}

const composeSpecs = `[[spec]]
name = "web"
match = { "com.docker.compose.project" = "shop", "com.docker.compose.service" = "web" }
[spec.readiness]
tcp_socket = { port = 80 }
[[spec]]
name = "cache"
match_image = "redis:*"
[spec.readiness]
tcp_socket = { port = 6379 }
`

// What labels say is read as Compose reads it, and judged as a container's.
func TestCheckOfACompose(t *testing.T) {
	t.Setenv("READY_PERIOD", "2s")
	t.Setenv("COMPOSE_PROJECT_NAME", "")
	dir := filesIn(t, map[string]string{
		"healthd.toml": composeSpecs,
		".env":         "PORT=5432\n",
		"labels.env":   "healthd.liveness.tcp_socket.port=1\n",
		"base.yaml":    "services:\n  base:\n    image: base\n    labels:\n      healthd.restart_policy: Never\n",
		"more.yaml":    "services:\n  included:\n    image: more\n",
		"compose.yaml": `name: shop
include: [more.yaml]
services:
  web:
    image: web
    env_file: not-needed-here.env
    labels: ["healthd.readiness.period=${READY_PERIOD}", "com.docker.compose.service=forged"]
  db:
    image: postgres
    labels:
      healthd.liveness.tcp_socket.port: ${PORT}
  cache:
    image: redis:7
    profiles: [extra]
  child:
    extends: { file: base.yaml, service: base }
  fromfile:
    build: .
    label_file: labels.env
  off:
    image: off
    labels: { healthd.enable: "false" }
  plugin:
    provider: { type: something }
`,
	})
	got := compose(dir, "compose.yaml")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	golden(t, "check-compose.txt", got.stdout)
}

func TestCheckOfAComposeThatIsWrong(t *testing.T) {
	seven := "services:\n"
	for i := range 7 {
		seven += fmt.Sprintf("  s%d:\n    image: \"${A%d:?no}\"\n", i+1, i+1)
	}
	const anyService = "services:\n  a:\n    image: a\n"
	dir := filesIn(t, map[string]string{
		"healthd.toml":           composeSpecs,
		"wrong/compose.yaml":     "name: shop\nservices:\n  web:\n    image: web\n    labels: { healthd.readiness.period: soon }\n  db:\n    image: db\n    labels: { healthd.nope: 1 }\n  good:\n    image: good\n    labels: { healthd.enable: 'true' }\n",
		"good/compose.yaml":      anyService,
		"none.yaml":              "name: none\nservices: {}\n",
		"unset.yaml":             "name: unset\nservices:\n  a:\n    image: a\n    labels: { healthd.enable: \"${NOT_SET_ANYWHERE}\" }\n",
		"broken.yaml":            "services: [\n",
		"unknown.yaml":           "name: x\nservices:\n  a:\n    imagine: a\n",
		"include.yaml":           "name: x\ninclude: [https://example.invalid/compose.yaml]\n" + anyService,
		"git.yaml":               "name: x\ninclude: ['git@example.invalid:a/b.git']\n" + anyService,
		"oci.yaml":               "name: x\ninclude: ['oci://example.invalid/a']\n" + anyService,
		"extends.yaml":           "name: x\nservices:\n  a:\n    extends: { file: 'https://example.invalid/base.yaml', service: a }\n",
		"nested.yaml":            "name: x\ninclude: [include.yaml]\n" + anyService,
		"include-twice.yaml":     "name: x\ninclude: [include-twice.yaml]\n" + anyService,
		"a-directory.yaml/empty": "",
		"escaped.yaml":           "services:\n  a:\n    image: '${'\n",
		"undefined.yaml":         "services:\n  a:\n    image: a\n    depends_on: [b]\n",
		"seven.yaml":             seven,
	})
	const wrong = "wrong/compose.yaml: shop/db is Invalid, healthd would not supervise it: label healthd.nope: "
	got := compose(dir, "wrong/compose.yaml", "good/compose.yaml")
	if got.code != 1 || !strings.HasPrefix(got.stderr, wrong) || !strings.Contains(got.stderr, "\nwrong/compose.yaml: shop/web is Invalid, healthd would not supervise it: label healthd.readiness.period: must be a duration") ||
		!strings.HasSuffix(got.stderr, "\nhealthd: cannot supervise 2 services: wrong labels\n") ||
		!strings.HasPrefix(got.stdout, "shop/good: spec none; labels only\ngood/a: not supervised: it has no label that begins with healthd.; spec web (healthd.toml:1): ") {
		t.Errorf("%+v", got)
	}
	if got := compose(dir, "unset.yaml"); got.code != 1 || !strings.HasPrefix(got.stderr, "warning: variables that are not set, and empty here: NOT_SET_ANYWHERE\n") {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]string{
		"broken.yaml": "broken.yaml:1: ", "unknown.yaml": "unknown.yaml:4: services.a.imagine: Compose knows no such key", "escaped.yaml": "escaped.yaml:3: invalid interpolation format for services.a.image. You may need to escape any $ with another $.",
		"seven.yaml": "seven.yaml:3: services.s1.image: required variable A1 is missing a value: no; seven.yaml:5: services.s2.", "undefined.yaml": "undefined.yaml:3: service \"a\" depends on undefined service \"b\"",
		"no-such.yaml": "no such file", "a-directory.yaml": "it is not a regular file", "include-twice.yaml": "include cycle detected",
		"include.yaml": "https://example.invalid/compose.yaml is not a local file, and healthd asks no network", "git.yaml": "git@example.invalid:a/b.git is not a local file",
		"oci.yaml": "oci://example.invalid/a is not a local file", "extends.yaml": "https://example.invalid/base.yaml is not a local file", "nested.yaml": "https://example.invalid/compose.yaml is not a local file",
		"https://example.invalid/c.yaml": "https://example.invalid/c.yaml is not a local file",
	} {
		got := compose(dir, name, "good/compose.yaml")
		if got.code != 1 || !strings.HasPrefix(got.stderr, "healthd: cannot read the Compose file "+name+": ") || !strings.Contains(got.stderr, want) ||
			strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stdout, "good/a: ") {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	if got := compose(dir, "seven.yaml"); strings.Count(got.stderr, "is missing a value") != 5 || !strings.HasSuffix(got.stderr, "; and 2 more\n") {
		t.Errorf("of seven: %+v", got)
	}
	if got := compose(dir, "none.yaml"); got.code != 0 || got.stdout != "none.yaml: no services\n" {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "healthd.toml"), []byte("a = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := compose(dir, "good/compose.yaml"); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "cannot use the configuration: 1 problem\n") {
		t.Errorf("%+v", got)
	}
}

// docker compose config joins several files, and writes them to a pipe.
func TestCheckOfAComposeFromAPipe(t *testing.T) {
	cmd := program(t, "check", "--config", write(t, "h.toml", composeSpecs), "--compose", "-")
	cmd.Stdin = strings.NewReader("name: shop\nservices:\n  web:\n    image: web\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "shop/web: spec web, by match com.docker.compose.project=shop") {
		t.Errorf("%v: %s", err, out)
	}
}

// What a file names is a file, too, that may be a pipe which nobody writes.
func TestCheckOfAComposeThatNamesAPipe(t *testing.T) {
	for what, text := range map[string]string{
		"label_file": "services:\n  a:\n    image: a\n    label_file: pipe\n",
		"include":    "include: [pipe]\nservices:\n  a:\n    image: a\n",
		".env":       "services:\n  a:\n    image: a\n",
	} {
		dir := filesIn(t, map[string]string{"compose.yaml": text})
		pipe := filepath.Join(dir, "pipe")
		if what == ".env" {
			pipe = filepath.Join(dir, ".env")
		}
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := interpretCompose(ctx, filepath.Join(dir, "compose.yaml"), io.Discard)
		cancel()
		if err == nil || err.Error() != "it takes too long: does it name a pipe?" {
			t.Errorf("%s: got %v", what, err)
		}
		// The reader that was left behind has its end.
		writer, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		writer.Close()
	}
}
