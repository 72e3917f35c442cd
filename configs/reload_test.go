package configs

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const sections = `
[[runtime]]
relist = "5s"
[listen]
http = "127.0.0.1:1"
agent = "127.0.0.1:2"
control = "/run/other.sock"
[state]
dir = "/srv/healthd"
[log]
level = "debug"
format = "json"
[guard]
max_restarts = 3
window = "10s"
[haproxy]
sockets = ["/run/haproxy/admin.sock"]
`

func TestNeedsRestart(t *testing.T) {
	all := []string{"runtime", "listen.http", "listen.agent", "listen.control", "state.dir", "log.level", "log.format", "haproxy.sockets"}
	tests := []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", sections, sections, nil},
		{"the default written down", "", "[state]\ndir = \"/var/lib/healthd\"\n[[runtime]]\ntype = \"docker\"\n", nil},
		{"everything", "", sections, all},
		{"everything back", sections, "", all},
		{"specs", webSpec, hookSpec, nil},
		{"guard", "", "[guard]\nmax_restarts = 0\nwindow = \"1h\"\n", nil},
		{"one more runtime", "[[runtime]]\n", "[[runtime]]\n[[runtime]]\nendpoint = \"tcp://127.0.0.1:1\"\n", []string{"runtime"}},
		{"endpoint", "", "[[runtime]]\nendpoint = \"tcp://127.0.0.1:1\"\n", []string{"runtime"}},
		{"off", "", "listen.http = \"\"", []string{"listen.http"}},
		{"no sockets", "", "haproxy.sockets = []", nil},
		{"sockets", haproxySpec, "haproxy.sockets = [\"/run/haproxy/admin.sock\"]", []string{"haproxy.sockets"}},
		{"backends", haproxySpec, strings.ReplaceAll(haproxySpec, "\"web\"", "\"api\""), nil},
		{"nothing kept", "", "state.dir = \"\"", []string{"state.dir"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustParse(t, tt.before).NeedsRestart(mustParse(t, tt.after)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A setting that is new in one of these sections must not be forgotten.
func TestNeedsRestartKnowsAll(t *testing.T) {
	for _, section := range []string{"Listen", "State", "Daemon", "Log", "HAProxy"} {
		fields, _ := reflect.TypeFor[Config]().FieldByName(section)
		for field := range fields.Type.Fields() {
			next := *mustParse(t, "")
			switch setting := reflect.ValueOf(&next).Elem().FieldByName(section).FieldByIndex(field.Index); setting.Kind() {
			case reflect.Slice:
				setting.Set(reflect.MakeSlice(field.Type, 1, 1))
			case reflect.Int64:
				setting.SetInt(1)
			default:
				setting.SetString("other")
			}
			want := strings.ToLower(section + "." + field.Name)
			if got := mustParse(t, "").NeedsRestart(&next); len(got) != 1 || strings.ReplaceAll(got[0], "_", "") != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}
