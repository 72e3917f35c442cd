package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"healthd/configs"
)

// appSpec is a spec of that name.
func appSpec(name string) string {
	return "[[spec]]\nname = \"" + name + "\"\nmatch = { app = \"" + name + "\" }\n[spec.readiness]\ntcp_socket = { port = 80 }\n"
}

// What is listed is what was read, no more and no less.
func TestCheckListsTheFiles(t *testing.T) {
	dir := t.TempDir()
	empty := t.TempDir()
	for name, text := range map[string]string{
		"10-a.toml": appSpec("a") + appSpec("b"), "20-none.toml": "log.level = \"warn\"\n", "30-c.toml": `spec = [{ name = "c" }, { name = "d" }, { name = "e" }]` + "\n",
		"40-d.toml.bak": appSpec("x"), ".hidden.toml": appSpec("y"), "toml": appSpec("z"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "50-dir.toml"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := inside("check", "--config", dir, "--config", empty, "--socket", filepath.Join(dir, "none"))
	want := dir + "/10-a.toml: 2 specs\n" + dir + "/20-none.toml: 0 specs\n" + dir + "/30-c.toml: 3 specs\n" + empty + ": a directory without *.toml files\nconfiguration is valid: 5 specs\n"
	if got.code != 0 || got.stdout != want {
		t.Errorf("%+v, want %s", got, want)
	}
	c, err := configs.Load([]string{dir})
	if err != nil || strings.Join(c.SpecNames(), " ") != "a b c d e" {
		t.Errorf("another rule of which files are read: %v, %v", c.SpecNames(), err)
	}
}

func TestCheckListsBrokenFiles(t *testing.T) {
	broken, wrong := write(t, "broken.toml", "a = \n"), write(t, "wrong.toml", "spec = 3\n")
	none := broken + ".none"
	got := inside("check", "--config", broken, "--config", wrong, "--config", none)
	want := broken + ": is not valid TOML\n" + wrong + ": 0 specs\n" + none + ": cannot be read\n"
	if got.code != 1 || got.stdout != want || !strings.Contains(got.stderr, none+": cannot be read: ") {
		t.Errorf("%+v, want %s", got, want)
	}
}

// The library that reads TOML would need a stack without end for one of these, and days for the other.
func TestCheckListsDeepFiles(t *testing.T) {
	const levels = 1 << 20
	for what, text := range map[string]string{"arrays": "a = " + strings.Repeat("[", levels), "keys": strings.Repeat("a.", levels) + "a = 1\n"} {
		file := write(t, "deep.toml", text)
		got := inside("check", "--config", file, "--socket", filepath.Join(t.TempDir(), "none"))
		if got.code != 1 || got.stdout != file+": is not valid TOML\n" || !strings.Contains(got.stderr, "is nested more than 64 levels deep") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
