package configs

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

const (
	fleetText = "fleet = { endpoints = [\"http://10.0.0.1:2379\"], advertise = \"10.0.0.5\" }\n"

	wholeFleet = `[fleet]
endpoints     = ["https://10.0.0.1:2379", "https://etcd.example:2379", "https://[fd00::1]:2379"]
prefix        = "/shop"
host          = "h1.example"
advertise     = "fd00::5"
ttl           = "5s"
ca_file       = "/etc/healthd/ca.pem"
cert_file     = "/etc/healthd/cert.pem"
key_file      = "/etc/healthd/key.pem"
user          = "healthd"
password_file = "/etc/healthd/password"
on_stop       = "leave"
drain         = "1m"

[[spec]]
name              = "web"
match.role        = "web"
group.scope       = "fleet"
group.unreachable = "wait"
publish           = { port = 80, address = "container" }
`
)

func TestFleet(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *Fleet
	}{
		{"none", "", nil},
		{"least", fleetText, &Fleet{
			Endpoints: []string{"http://10.0.0.1:2379"}, Prefix: "/healthd/", Advertise: netip.MustParseAddr("10.0.0.5"), TTL: 10 * time.Second, Drain: 3 * time.Second,
		}},
		{"whole", wholeFleet, &Fleet{
			Endpoints: []string{"https://10.0.0.1:2379", "https://etcd.example:2379", "https://[fd00::1]:2379"}, Prefix: "/shop/", Host: "h1.example",
			Advertise: netip.MustParseAddr("fd00::5"), TTL: 5 * time.Second, CAFile: "/etc/healthd/ca.pem", CertFile: "/etc/healthd/cert.pem",
			KeyFile: "/etc/healthd/key.pem", User: "healthd", PasswordFile: "/etc/healthd/password", Leave: true, Drain: time.Minute,
		}},
		{"longest", "[fleet]\nendpoints = [\"http://10.0.0.1:2379\"]\nadvertise = \"::ffff:10.0.0.5\"\nttl = \"5m\"\nprefix = \"/" + strings.Repeat("x", 126) + "/\"\nhost = \"" +
			strings.Repeat("h", 64) + "\"\n", &Fleet{
			Endpoints: []string{"http://10.0.0.1:2379"}, Prefix: "/" + strings.Repeat("x", 126) + "/", Host: strings.Repeat("h", 64),
			Advertise: netip.MustParseAddr("10.0.0.5"), TTL: 5 * time.Minute, Drain: 3 * time.Second,
		}},
		{"all of etcd", strings.Replace(fleetText, "advertise", "prefix = \"/\", advertise", 1), &Fleet{
			Endpoints: []string{"http://10.0.0.1:2379"}, Prefix: "/", Advertise: netip.MustParseAddr("10.0.0.5"), TTL: 10 * time.Second, Drain: 3 * time.Second,
		}},
		{"no containers", "runtime = []\nfleet = { endpoints = [\"http://10.0.0.1:2379\"] }\n", &Fleet{
			Endpoints: []string{"http://10.0.0.1:2379"}, Prefix: "/healthd/", TTL: 10 * time.Second, Drain: 3 * time.Second,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustParse(t, tt.text).Fleet
			if got != nil {
				got.at, got.advertiseAt, got.userAt = place{}, place{}, place{}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A host that only serves the members of others has no engine, and without [[runtime]] there is Docker.
func TestNoRuntimes(t *testing.T) {
	const fleet = "[fleet]\nendpoints = [\"http://10.0.0.1:2379\"]\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int    // runtimes
		wrong string // of the configuration
	}{
		{"none", map[string]string{"1.toml": "runtime = []\n" + fleet}, 0, ""},
		{"none, in another file", map[string]string{"1.toml": fleet, "2.toml": "runtime = []\n"}, 0, ""},
		{"not named", map[string]string{"1.toml": fleet + "advertise = \"10.0.0.5\"\n"}, 1, ""},
		{"without a fleet", map[string]string{"1.toml": "", "2.toml": "runtime = []\n"}, 0,
			"2.toml:1: runtime: must not be empty without [fleet]: healthd would have no containers"},
		{"and one", map[string]string{"1.toml": "runtime = []\n" + fleet, "2.toml": "[[runtime]]\n"}, 0,
			"1.toml:1: runtime: must not be empty: there is a runtime at 2.toml:1"},
		{"the fleet cannot be read", map[string]string{"1.toml": "runtime = []\n", "2.toml": "[fleet"}, 0,
			"2.toml:1: expected '.' or ']' to end table name, but got '\\x00' instead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, tt.files)
			c, err := Load([]string{"."})
			if tt.wrong != "" {
				if err == nil || err.Error() != tt.wrong {
					t.Errorf("got %v, want %s", err, tt.wrong)
				}
				return
			}
			if err != nil || len(c.Runtimes) != tt.want {
				t.Errorf("got %+v, %v, want %d runtimes", c, err, tt.want)
			}
		})
	}
}

func TestFleetHostName(t *testing.T) {
	named := strings.Replace(fleetText, "advertise", "host = \"h1\", advertise", 1)
	for _, tt := range []struct{ text, hostname, want, wrong string }{
		{fleetText, "h2.example", "h2.example", ""},
		{named, "h2.example", "h1", ""},
		{named, "", "h1", ""},
		{fleetText, "", "", `healthd.toml:1: fleet.host: is not set, and the host's own name must be 1 to 64 letters, digits, -, _ and ., is ""`},
		{fleetText, "id", "", `healthd.toml:1: fleet.host: is not set, and the host's own name must not be "id", which begins the name of a container by its ID, is "id"`},
	} {
		got, err := mustParse(t, tt.text).Fleet.HostName(tt.hostname)
		if got != tt.want || (err == nil) != (tt.wrong == "") || err != nil && err.Error() != tt.wrong {
			t.Errorf("%q: got %q, %v, want %q, %s", tt.hostname, got, err, tt.want, tt.wrong)
		}
		if _, ok := errors.AsType[Problems](err); err != nil && !ok {
			t.Errorf("%v has no place", err)
		}
	}
}

// Nothing of [fleet] can change while the daemon runs: a new setting must not be forgotten.
func TestFleetNeedsRestart(t *testing.T) {
	fields := reflect.TypeFor[Fleet]()
	for field := range fields.Fields() {
		if !field.IsExported() {
			continue
		}
		next := mustParse(t, fleetText)
		switch setting := reflect.ValueOf(next.Fleet).Elem().FieldByIndex(field.Index); setting.Kind() {
		case reflect.Slice:
			setting.Set(reflect.MakeSlice(field.Type, 1, 1))
		case reflect.Int64:
			setting.SetInt(1)
		case reflect.Bool:
			setting.SetBool(true)
		case reflect.String:
			setting.SetString("other")
		default:
			setting.Set(reflect.ValueOf(netip.MustParseAddr("10.0.0.6")))
		}
		want := "fleet." + strings.ToLower(field.Name)
		if field.Name == "Leave" {
			want = "fleet.onstop"
		}
		if got := mustParse(t, fleetText).NeedsRestart(next); len(got) != 1 || strings.ReplaceAll(got[0], "_", "") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, tt := range []struct {
		before, after string
		want          []string
	}{
		{fleetText, "\n" + fleetText, nil},
		{"", fleetText, []string{"fleet"}},
		{fleetText, "", []string{"fleet"}},
		{fleetText, "runtime = []\n" + fleetText, []string{"runtime"}},
	} {
		if got := mustParse(t, tt.before).NeedsRestart(mustParse(t, tt.after)); !slices.Equal(got, tt.want) {
			t.Errorf("from %q to %q: got %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

// A group over all hosts is the operator's word: a container must neither hold up others by it nor withdraw itself from it.
func TestGroupScope(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\n[spec.group]\n"
	one := core.Share{Number: 1}
	for _, tt := range []struct {
		name, text, label string
		want              core.Group
		wrong             string
	}{
		{"default", spec, "", core.Group{MaxUnavailable: one}, ""},
		{"host", spec + `scope = "host"`, "", core.Group{MaxUnavailable: one}, ""},
		{"fleet", spec + `scope = "fleet"`, "", core.Group{MaxUnavailable: one, Fleet: true}, ""},
		{"fleet, local", spec + "scope = \"fleet\"\nunreachable = \"local\"", "", core.Group{MaxUnavailable: one, Fleet: true}, ""},
		{"fleet, waits", spec + "scope = \"fleet\"\nunreachable = \"wait\"", "", core.Group{MaxUnavailable: one, Fleet: true, FleetWait: true}, ""},
		{"host, waits", spec + `unreachable = "wait"`, "", core.Group{MaxUnavailable: one}, ""},
		{"by defaults", "[defaults.group]\nunreachable = \"wait\"\n" + spec + `scope = "fleet"`, "", core.Group{MaxUnavailable: one, Fleet: true, FleetWait: true}, ""},
		{"a label to the fleet", spec, "scope=fleet", core.Group{}, "label healthd.group.scope: cannot be set by a label"},
		{"a label from the fleet", spec + `scope = "fleet"`, "scope=host", core.Group{}, "label healthd.group.scope: cannot be set by a label"},
		{"a label waits", spec + `scope = "fleet"`, "unreachable=wait", core.Group{}, "label healthd.group.unreachable: cannot be set by a label"},
		{"a label names the group", spec + `scope = "fleet"`, "name=shop/api", core.Group{Name: "shop/api", MaxUnavailable: one, Fleet: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			labels := map[string]string{specLabel: "web", core.ComposeProject: "shop"}
			if key, value, ok := strings.Cut(tt.label, "="); ok {
				labels["healthd.group."+key] = value
			}
			got, err := mustParse(t, fleetText+tt.text).Resolve(runtime.Traits{Name: "c", Labels: labels})
			if tt.wrong != "" {
				if err == nil || err.Error() != tt.wrong {
					t.Errorf("got %v, want %s", err, tt.wrong)
				}
				return
			}
			if err != nil || got.Group != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// A container that has labels only is in a group over all hosts where [defaults] says so.
func TestGroupScopeOfLabelsOnly(t *testing.T) {
	c := mustParse(t, fleetText+"defaults.group.scope = \"fleet\"\n")
	spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: map[string]string{"healthd.readiness.tcp_socket.port": "80"}})
	if err != nil || !spec.Group.Fleet {
		t.Errorf("got %+v, %v", spec, err)
	}
}

func TestPublishAddress(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\npublish.port = 80\n"
	for _, tt := range []struct {
		name, text, label string
		want              core.PublishAddress
		shown             string
	}{
		{"default", spec, "", "", ""},
		{"host", spec + `publish.address = "host"`, "", core.HostAddress, `"host" healthd.toml:4`},
		{"container", spec + `publish.address = "container"`, "", core.ContainerAddress, `"container" healthd.toml:4`},
		{"by label", spec + `publish.address = "container"`, "host", core.HostAddress, `"host" label healthd.publish.address`},
	} {
		labels := map[string]string{specLabel: "web"}
		if tt.label != "" {
			labels["healthd.publish.address"] = tt.label
		}
		got, err := mustParse(t, tt.text).Resolve(runtime.Traits{Name: "c", Labels: labels})
		if err != nil || got.Publish.Address != tt.want {
			t.Errorf("%s: got %+v, %v, want %q", tt.name, got, err, tt.want)
			continue
		}
		if tt.shown == "" {
			continue
		}
		if v := shownIn(got, "publish.address"); v.Value+" "+v.Origin != tt.shown {
			t.Errorf("%s: explain shows %+v, want %s", tt.name, v, tt.shown)
		}
	}
}

// Only a file says what the host is called.
func TestPublishHostAddress(t *testing.T) {
	const spec, key = "[[spec]]\nname = \"web\"\npublish.port = 80\n", "publish.host_address = "
	const refused = "label healthd.publish.host_address: cannot be set by a label"
	for _, tt := range []struct {
		name, text, label string
		want, wrong       string
	}{
		{"default", spec, "", "", ""},
		{"of a spec", spec + key + `"10.0.0.5"`, "", "10.0.0.5", ""},
		{"of all", "[defaults]\n" + key + "\"10.0.0.5\"\n" + spec, "", "10.0.0.5", ""},
		{"of all but one", "[defaults]\n" + key + "\"10.0.0.5\"\n" + spec + key + `""`, "", "", ""},
		{"IPv6", spec + key + `"fd00:0::5"`, "", "fd00::5", ""},
		{"by label", spec, "10.0.0.5", "", refused},
		{"by label, over a file", spec + key + `"10.0.0.5"`, "10.0.0.6", "", refused},
	} {
		labels := map[string]string{specLabel: "web"}
		if tt.label != "" {
			labels["healthd.publish.host_address"] = tt.label
		}
		got, err := mustParse(t, tt.text).Resolve(runtime.Traits{Name: "c", Labels: labels})
		switch {
		case tt.wrong != "" && (err == nil || err.Error() != tt.wrong):
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.wrong)
		case tt.wrong == "" && (err != nil || got.Publish.HostIP != tt.want):
			t.Errorf("%s: got %+v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// The page has every key of [fleet], and its default.
func TestDocumentedFleetKeys(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	block := mustParse(t, fleetText).Fleet
	defaults := map[string]string{
		"prefix": `"` + block.Prefix + `"`, "ttl": showDuration(block.TTL), "on_stop": `"keep"`, "drain": showDuration(block.Drain),
	}
	for _, row := range keyRows(fleetPart(t, string(text))) {
		for _, span := range codeSpan.FindAllStringSubmatch(row.key, -1) {
			documented[span[1]] = true
			if want := defaults[span[1]]; want != "" && !strings.HasPrefix(row.byDefault, "`"+want+"`") {
				t.Errorf("%s: the page says %s, the default is %s", span[1], row.byDefault, want)
			}
		}
	}
	keys := keysOf(func(t *table) { readFleet(t, true) })
	if !reflect.DeepEqual(documented, keys) {
		t.Errorf("documented are\n%v, the keys are\n%v", documented, keys)
	}
}

// fleetPart returns what the page says of [fleet].
func fleetPart(t *testing.T, page string) string {
	t.Helper()
	part := regexp.MustCompile(`(?s)\n### Fleet\n(.*?)\n##`).FindStringSubmatch(page)
	if part == nil {
		t.Fatal("there is no such part")
	}
	return part[1]
}

// Of a host in a fleet, HAProxy may be elsewhere.
func TestBackendOfAFleet(t *testing.T) {
	const spec = "[[spec]]\nname = \"web\"\npublish = { port = 80, haproxy.backend = \"web\" }\n"
	if _, err := Parse("healthd.toml", []byte(spec)); err == nil {
		t.Error("a backend without sockets and without other hosts")
	}
	c := mustParse(t, fleetText+spec)
	for _, labels := range []map[string]string{
		{specLabel: "web"},
		{"healthd.publish.haproxy.backend": "web", "healthd.publish.port": "80"},
	} {
		if s, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels}); err != nil || s.Publish.HAProxy.Backend != "web" {
			t.Errorf("%v: got %+v, %v", labels, s, err)
		}
	}
}
