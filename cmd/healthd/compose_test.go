package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A short file that stands for gigabytes is refused before Compose's reader writes its aliases out, and so is one that
// it names.
func TestAliasesOfACompose(t *testing.T) {
	bomb := "name: shop\nx-a: &a " + strings.Repeat("x", 1<<20) + "\nservices:\n  web: {image: web, healthcheck: {test: [CMD" + strings.Repeat(", *a", 100) + "]}}\n"
	dir := filesIn(t, map[string]string{
		"h.toml":       "",
		"bomb.yaml":    bomb,
		"include.yaml": "name: shop\ninclude: [nested/compose.yaml]\nservices:\n  db: {image: db}\n", "nested/compose.yaml": "include: [../bomb.yaml]\n",
		"extends.yaml": "name: shop\nservices:\n  db: {extends: {file: bomb.yaml, service: web}}\n",
	})
	const (
		own    = ":1: with its aliases it has more than 16 MiB: split it\n"
		others = ": services.web.healthcheck.test.[]: with its aliases and the files that it names it has more than 16 MiB: split it\n"
	)
	for file, want := range map[string]string{
		"bomb.yaml": "bomb.yaml: bomb.yaml" + own, "-": "-: stdin" + own, "include.yaml": "include.yaml" + others, "extends.yaml": "extends.yaml" + others,
	} {
		if testing.Short() && (file == "-" || file == "extends.yaml") {
			continue // ring two: they take long
		}
		path := file
		if file != "-" {
			path = filepath.Join(dir, file)
		}
		for what, args := range map[string][]string{"read": {"check", "--config", filepath.Join(dir, "h.toml"), "--compose"}, "import": {"import", "compose"}} {
			var got result
			if file == "-" {
				cmd := program(t, append(args, path)...)
				cmd.Stdin = strings.NewReader(bomb)
				out, _ := cmd.CombinedOutput()
				got = result{code: cmd.ProcessState.ExitCode(), stderr: string(out)}
			} else {
				got = inside(append(args, path)...)
			}
			if text := strings.ReplaceAll(got.stdout+got.stderr, dir+"/", ""); got.code != 1 || text != "healthd: cannot "+what+" the Compose file "+want {
				t.Errorf("%v: exit code %d: %.300s", args, got.code, text)
			}
		}
	}
}
