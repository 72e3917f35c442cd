package importer

import (
	"strings"
	"testing"

	"healthd/runtime"
)

// An autoheal that was built, or has another name, is known by what it needs.
func TestHealerOfAnotherName(t *testing.T) {
	for _, tt := range []struct {
		image, variable string
		hasSocket       bool
		want            bool
	}{
		{"willfarrell/autoheal:1.2", "", false, true},
		{"ops-watchdog", "AUTOHEAL_INTERVAL=7", true, true},
		{"", "AUTOHEAL_CONTAINER_LABEL=all", true, true},
		{"ops-watchdog", "AUTOHEAL_INTERVAL=7", false, false},
		{"ops-watchdog", "INTERVAL=7", true, false},
		{"portainer/portainer", "", true, false},
	} {
		h := healerOf("heal", tt.image, environment([]string{tt.variable}), tt.hasSocket)
		if (h != nil) != tt.want || h != nil && h.tool != "autoheal" {
			t.Errorf("%+v: %+v", tt, h)
		}
	}
	c := Container{Container: &runtime.Container{ID: "1", Name: "heal", Image: "mine", Env: []string{"AUTOHEAL_INTERVAL=7"}}, Creation: runtime.Creation{HasSocket: true}}
	d, err := Docker([]Container{c}, nil)
	if err != nil || !strings.Contains(d.Text, "autoheal (heal) restarts unhealthy containers, too. Stop it") {
		t.Errorf("%v: %+v", err, d)
	}
}

func TestDoubts(t *testing.T) {
	for test, want := range map[string]string{
		"CMD-SHELL|curl -f http://127.0.0.1/":               "",
		"CMD-SHELL|curl -f http://127.0.0.1/ || exit 1":     "",
		"CMD|curl|-f|http://localhost:8080/":                "asks localhost",
		"CMD-SHELL|curl http://127.0.0.1/ || exit 0":        `ends in "|| exit 0", so it never fails`,
		"CMD-SHELL|pg_isready || true ":                     `ends in "|| true"`,
		"CMD-SHELL|wget -q localhost; exit 0;":              `ends in "; exit 0"`,
		"CMD|mysqladmin|ping|-h|my-localhosted.example.com": "",
		"NONE": "",
	} {
		kind, rest, _ := strings.Cut(test, "|")
		words := []string{kind, rest}
		if kind == "CMD" {
			words = append([]string{kind}, strings.Split(rest, "|")...)
		}
		if rest == "" {
			words = words[:1]
		}
		got := strings.Join(Doubts(&runtime.Healthcheck{Test: words}), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", test, got, want)
		}
	}
	if Doubts(nil) != nil {
		t.Error("of none")
	}
}
