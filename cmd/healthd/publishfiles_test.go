package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"healthd/configs"
	"healthd/supervisor/files"
)

// Every template that the configuration knows is there, works, and no other one is.
func TestShippedTemplates(t *testing.T) {
	for _, name := range configs.ShippedTemplates() {
		tmpl, err := files.Shipped(name)
		if err == nil {
			err = tmpl.Try(func(string) bool { return true })
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	there, err := filepath.Glob("../../supervisor/files/templates/*.tmpl")
	if err != nil || len(there) != len(configs.ShippedTemplates()) {
		t.Errorf("there are %v, %v", there, err)
	}
	for _, path := range there {
		if name := strings.TrimSuffix(filepath.Base(path), ".tmpl"); !slices.Contains(configs.ShippedTemplates(), name) {
			t.Errorf("the configuration does not know %s", name)
		}
	}
}

// All that a [[publish_file]] says reaches its file.
func TestFilesOf(t *testing.T) {
	c, err := configs.Parse("healthd.toml", []byte(`
[[publish_file]]
template = "nginx"
path     = "/etc/nginx/conf.d/healthd.conf"
services = ["shop/*"]
check    = ["nginx", "-t"]
reload   = ["nginx", "-s", "reload"]
min_interval = "3s"
timeout  = "4s"
`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := filesOf(c)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	f, of := all[0], c.PublishFiles[0]
	if f.Path != of.Path || !slices.Equal(f.Check, of.Check) || !slices.Equal(f.Reload, of.Reload) || !slices.Equal(f.Services, of.Services) ||
		f.MinInterval != of.MinInterval || f.Timeout != of.Timeout || f.Drain != of.Drain || !f.Covers("shop/web") || f.Covers("blog/web") {
		t.Errorf("got %+v of %+v", f, of)
	}
}

// A template with a mistake is a problem of the configuration, with the places of both, for check and for the daemon.
func TestBadTemplates(t *testing.T) {
	dir := filesIn(t, map[string]string{
		"syntax.tmpl": "a\n{{range services}}",
		"field.tmpl":  "a\n{{range services}}\n{{range .Ready}}{{.Adress}}{{end}}{{end}}",
		"other.tmpl":  `{{(service "blog/web").Name}}`,
		"empty.tmpl":  "{{range services}}{{end}}",
	})
	text := ""
	for _, name := range []string{"syntax", "field", "other", "empty", "missing"} {
		text += "[[publish_file]]\ntemplate = \"" + dir + "/" + name + ".tmpl\"\npath = \"/srv/" + name + "\"\nservices = [\"shop/*\"]\n"
	}
	config := filepath.Join(dir, "healthd.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		":2: publish_file[#1].template: " + dir + "/syntax.tmpl:2: unexpected EOF",
		":6: publish_file[#2].template: " + dir + "/field.tmpl:3:",
		":10: publish_file[#3].template: " + dir + "/other.tmpl:1:",
		":14: publish_file[#4].template: " + dir + "/empty.tmpl makes an empty file",
		":18: publish_file[#5].template: " + dir + "/missing.tmpl cannot be read: no such file or directory",
	}
	_, err := loadConfig([]string{config})
	problems, ok := errors.AsType[configs.Problems](err)
	if !ok || len(problems) != len(want) {
		t.Fatalf("got %v", err)
	}
	for i, p := range problems {
		if !strings.HasPrefix(p.String(), config+want[i]) {
			t.Errorf("got  %s\nwant %s%s", p, config, want[i])
		}
	}
}

// A file that would replace what it must not is refused, also where links lead there.
func TestPathsThatClash(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	own := filepath.Join(dir, "own.tmpl")
	for _, err := range []error{
		os.Mkdir(state, 0o700), os.WriteFile(own, []byte("# nobody\n"), 0o600),
		os.Symlink(own, filepath.Join(dir, "to-own")), os.Symlink("absent.conf", filepath.Join(dir, "to-absent")),
		os.Symlink(state, filepath.Join(dir, "to-state")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, first, second, want string }{
		{"its template", "to-own", "", "path: is also the template: healthd would replace it"},
		{"the same by a link", "absent.conf", "to-absent", "path: leads to DIR/absent.conf, as DIR/absent.conf does"},
		{"the journal", "to-state/journal.db", "", "path: must not be in healthd's own state directory"},
		{"in a directory of it", "state/records/x", "", "path: must not be in healthd's own state directory"},
		{"beside it", "state.conf", "absent.conf", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "[state]\ndir = \"" + state + "\"\n"
			for _, path := range []string{tt.first, tt.second} {
				if path != "" {
					text += "[[publish_file]]\ntemplate = \"" + own + "\"\npath = \"" + filepath.Join(dir, path) + "\"\n"
				}
			}
			c, err := configs.Parse("healthd.toml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, err = filesOf(c)
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
