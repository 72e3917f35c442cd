package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The files of secrets are read with the configuration; the line's end does not count.
func TestNotify(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := write("key", "secret\n")
	write("oncall-url", "ntfy://token@ntfy.example/topic\r\n")
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	c := mustParse(t, `
[[notify]]
name        = "hook"
webhook     = "https://user:pass@alerts.example/healthd?token=x"
secret_file = "`+key+`"
reasons     = ["GaveUp", "OOMKilled"]
services    = ["shop/*", "db"]
projects    = ["shop"]
group_wait  = "0s"

[[notify]]
name     = "chat"
url_file = "oncall-url"

[[notify]]
name    = "page"
command = ["/usr/local/bin/page", "--now"]
repeat  = "1h"
timeout = "1m"
max_per_hour = 5
`)
	const wait, repeat, timeout = 10 * time.Second, 4 * time.Hour, 10 * time.Second
	want := []Notify{
		{Name: "hook", Webhook: "https://user:pass@alerts.example/healthd?token=x", Secret: []byte("secret"), Reasons: []string{"GaveUp", "OOMKilled"},
			Services: []string{"shop/*", "db"}, Projects: []string{"shop"}, Repeat: repeat, Timeout: timeout, PerHour: 20},
		{Name: "chat", URL: "ntfy://token@ntfy.example/topic", GroupWait: wait, Repeat: repeat, Timeout: timeout, PerHour: 20},
		{Name: "page", Command: []string{"/usr/local/bin/page", "--now"}, GroupWait: wait, Repeat: time.Hour, Timeout: time.Minute, PerHour: 5},
	}
	if !reflect.DeepEqual(c.Notify, want) {
		t.Errorf("got\n%+v, want\n%+v", c.Notify, want)
	}
}

func TestNotifyWants(t *testing.T) {
	for _, tt := range []struct {
		name             string
		n                Notify
		service, project string
		want             bool
	}{
		{"all", Notify{}, "", "", true},
		{"the engine is no service", Notify{Services: []string{"*"}}, "", "", false},
		{"the engine is no project", Notify{Projects: []string{"*"}}, "", "", false},
		{"whole name", Notify{Services: []string{"shop/web"}}, "shop/web", "shop", true},
		{"pattern", Notify{Services: []string{"blog/*", "shop/w?b"}}, "shop/web", "shop", true},
		{"last part", Notify{Services: []string{"web"}}, "shop/web", "shop", true},
		{"another project's", Notify{Services: []string{"blog/web"}}, "shop/web", "shop", false},
		{"no part of a word", Notify{Services: []string{"we"}}, "shop/web", "shop", false},
		{"both must hold", Notify{Services: []string{"web"}, Projects: []string{"blog"}}, "shop/web", "shop", false},
		{"both hold", Notify{Services: []string{"web"}, Projects: []string{"sh*"}}, "shop/web", "shop", true},
	} {
		if got := tt.n.Wants(tt.service, tt.project); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// No message about a wrong [[notify]] repeats anything of a URL.
func TestNotifyHidesSecrets(t *testing.T) {
	text, err := os.ReadFile("testdata/bad/notify-secrets.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("healthd.toml", text)
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("hidden-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Parse("healthd.toml", []byte("[[notify]]\nname = \"a\"\nurl_file = \""+file+"\"\n"))
	if err == nil || strings.Contains(err.Error(), "hidden-") {
		t.Errorf("got %v", err)
	}
}

// notifyPart returns what the page says of [[notify]].
func notifyPart(t *testing.T) string {
	t.Helper()
	_, part, found := strings.Cut(readReference(t), "\n### Notifications\n")
	if !found {
		t.Fatal("there is no such part")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// The page has every key of [[notify]], and its default.
func TestDocumentedNotifyKeys(t *testing.T) {
	documented := map[string]bool{}
	for _, row := range keyRows(notifyPart(t)) {
		for _, span := range codeSpan.FindAllStringSubmatch(row.key, -1) {
			documented[span[1]] = true
		}
		for _, def := range []struct{ key, value string }{{"group_wait", `"10s"`}, {"repeat", `"4h"`}, {"timeout", `"10s"`}, {"max_per_hour", "20"}} {
			if row.key == "`"+def.key+"`" && strings.Trim(row.byDefault, "`") != def.value {
				t.Errorf("%s: the page says %s, the default is %s", def.key, row.byDefault, def.value)
			}
		}
	}
	keys := keysOf(func(t *table) { readNotify(t) })
	if !reflect.DeepEqual(documented, keys) {
		t.Errorf("documented are\n%v, the keys are\n%v", documented, keys)
	}
}
