package files

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"healthd/supervisor"
)

var update = flag.Bool("update", false, "rewrite testdata")

func everything(string) bool { return true }

func shipped() []string {
	return []string{"nginx", "caddy", "traefik", "envoy", "prometheus", "haproxy-map"}
}

func mustShip(t testing.TB, name string) *Template {
	t.Helper()
	tmpl, err := Shipped(name)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func mustRender(t testing.TB, tmpl *Template, s *snapshot) string {
	t.Helper()
	text, err := tmpl.render(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustParse(t testing.TB, text string) *Template {
	t.Helper()
	tmpl, err := Parse("own.tmpl", text)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// sample is a snapshot with a service whose containers are all gone.
func sample() *snapshot { return snapshotOf(sampleHost(), everything, []string{"shop/old"}) }

// What the shipped templates make of the sample, and of a host without services, is in testdata.
func TestShipped(t *testing.T) {
	for _, name := range shipped() {
		for what, s := range map[string]*snapshot{"sample": sample(), "empty": snapshotOf(nil, everything, nil)} {
			golden := filepath.Join("testdata", name+"."+what+".txt")
			got := mustRender(t, mustShip(t, name), s)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%s of %s: %v, got\n%s", name, what, err, got)
			}
		}
	}
	if _, err := Shipped("../x"); err == nil {
		t.Error("a template that is not shipped was found")
	}
	if entries, err := os.ReadDir("templates"); err != nil || len(entries) != len(shipped()) {
		t.Errorf("the test knows %d templates, there are %d, %v", len(shipped()), len(entries), err)
	}
}

// What templates get of a host.
func TestSnapshot(t *testing.T) {
	at := func(container, id, address string, port int, ready bool) supervisor.Endpoint {
		return supervisor.Endpoint{Container: container, ID: id, Address: address, Port: port, Ready: ready}
	}
	all := []supervisor.Service{
		{Name: "shop/web", Endpoints: []supervisor.Endpoint{
			at("a", "1", "10.0.0.10", 80, true), at("b", "2", "10.0.0.9", 80, true), at("c", "3", "::ffff:10.0.0.8", 80, false),
			at("d", "4", "", 80, true), at("e", "5", "10.0.0.7", 0, true), at("f", "6", "fe80::1%eth0", 80, true), at("g", "7", "x; }", 80, true),
			at("docker:h", "beef", "fd00::1", 80, true), at("i;\n", "no id", "10.0.0.6", 80, true),
		}},
		{Name: "blog/web", Endpoints: []supervisor.Endpoint{at("z", "8", "10.0.0.2", 80, true)}},
		{Name: "shop/x; }", Endpoints: []supervisor.Endpoint{at("y", "9", "10.0.0.3", 80, true)}},
	}
	s := snapshotOf(all, func(name string) bool { return strings.HasPrefix(name, "shop/") }, []string{"shop/old", "shop/web", "blog/old", "shop/a/b"})
	var got []string
	for _, of := range s.services {
		got = append(got, fmt.Sprintf("%s %s %s %d/%d", of.Name, of.Plain, of.Project, len(of.Ready), len(of.All)))
		for _, m := range of.All {
			got = append(got, fmt.Sprintf("  %s %.20s %v", m.HostPort, m.Container, m.Ready))
		}
	}
	want := []string{
		"shop/old shop--old shop 0/0", "shop/web shop--web shop 4/5", "  10.0.0.6:80 8e7b3e4e6a2dd5d6b9f8 true", "  10.0.0.8:80 c false", "  10.0.0.9:80 b true",
		"  10.0.0.10:80 a true", "  [fd00::1]:80 beef true",
	}
	if len(got) > 2 {
		want[2] = "  10.0.0.6:80 " + textOf("no id")[:20] + " true"
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(s.refused) != 1 || s.refused[0].service != "shop/x; }" {
		t.Errorf("refused were %q", s.refused)
	}
}

// nginx refuses a file with two upstreams whose names differ in case only: it would reload no other change.
func TestNamesThatDifferInCase(t *testing.T) {
	service := func(name string, owned bool) supervisor.Service {
		return supervisor.Service{Name: name, Owned: owned, Endpoints: []supervisor.Endpoint{{Container: "a", ID: "1", Address: "10.0.0.1", Port: 80, Ready: true}}}
	}
	for _, tt := range []struct {
		name  string
		all   []supervisor.Service
		known []string
		want  string
	}{
		{"the first by name", []supervisor.Service{service("shop/WEB", false), service("shop/web", false)}, nil, "shop/WEB"},
		{"who was there before", []supervisor.Service{service("shop/WEB", false), service("shop/web", false)}, []string{"shop/web"}, "shop/web"},
		{"the operator's", []supervisor.Service{service("Shop/Web", false), service("shop/web", true)}, []string{"Shop/Web"}, "shop/web"},
		{"who is there", []supervisor.Service{service("shop/WEB", false)}, []string{"shop/web"}, "shop/WEB"},
		{"the case of no part matters", []supervisor.Service{service("SHOP/web", false), service("shop/web", false)}, nil, "SHOP/web"},
		{"other names", []supervisor.Service{service("shop--web", false), service("shop/web", false)}, nil, "shop--web shop/web"},
	} {
		s := snapshotOf(tt.all, everything, tt.known)
		if got := strings.Join(s.names(), " "); got != tt.want || len(s.refused) != len(tt.all)-len(s.names()) {
			t.Errorf("%s: got %s, want %s; refused %v", tt.name, got, tt.want, s.refused)
		}
		if text := string(mustRender(t, mustShip(t, "nginx"), s)); strings.Count(text, "upstream ") != len(s.names()) {
			t.Errorf("%s: nginx gets\n%s", tt.name, text)
		}
	}
}

// A version is another one whenever a template may make something else.
func TestVersion(t *testing.T) {
	versions := map[string]string{}
	for what, change := range map[string]func([]supervisor.Service) []supervisor.Service{
		"the same": func(all []supervisor.Service) []supervisor.Service { return all },
		"ready":    func(all []supervisor.Service) []supervisor.Service { all[2].Endpoints[2].Ready = true; return all },
		"draining": func(all []supervisor.Service) []supervisor.Service { all[2].Endpoints[3].Draining = false; return all },
		"port":     func(all []supervisor.Service) []supervisor.Service { all[2].Endpoints[3].Port++; return all },
		"fewer":    func(all []supervisor.Service) []supervisor.Service { return all[:3] },
	} {
		v := snapshotOf(change(sampleHost()), everything, nil).version()
		if other, twice := versions[v]; twice {
			t.Errorf("%s and %s have one version", what, other)
		}
		versions[v] = what
	}
}

// What own templates may write, and where mistakes are said to be.
func TestOwnTemplate(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{{range service "shop/web" | ready}}x{{end}}`, `error: own.tmpl:1: function "ready" not defined`},
		{`{{with service "shop/web"}}{{len .Ready}} {{len .Draining}} {{len .All}} {{.Plain}} {{.Project}}{{end}}`, "3 1 5 shop--web shop"},
		{`{{(service "shop/new").Name}} {{len (service "shop/new").All}}`, "shop/new 0"},
		{`{{service "shop web"}}`, `error: own.tmpl:1:2: executing "own.tmpl" at <service "shop web">: error calling service: "shop web" is no name of a service: write NAME or PROJECT/NAME`},
		{"\n\n{{range services}}\n{{.Addres}}{{end}}", `error: own.tmpl:4:2: executing "own.tmpl" at <.Addres>: can't evaluate field Addres in type *files.Service`},
		{`{{range .Services}}{{range .Ready}}{{.Container}},{{end}}{{end}}`, "blog-api-1,shop-web-1,shop-web-2,h2:shop-web-1,"},
		{`{{range services}}{{if hasPrefix .Name "shop/"}}{{trimPrefix .Name "shop/"}} {{end}}{{end}}`, "old web worker "},
		{`{{range (service "shop/web").Ready}}{{json .HostPort}} {{replace "." "-" .Address}} {{lower "A"}} {{end}}`, `"172.18.0.2:8080" 172-18-0-2 a "172.18.0.3:8080" 172-18-0-3 a "192.168.0.2:32768" 192-168-0-2 a `},
		{`{{printf "%05d %v" 7 (contains "abc" "b")}}{{print 1 2}}`, "00007 true1 2"},
		{`{{range $i, $m := (service "shop/web").All}}{{if $i}}, {{end}}{{.Port}}{{end}}`, "8080, 8080, 8080, 8080, 32768"},
		{`{{range (service "shop/web").Ready}}{{.Host}}/{{.Plain}} {{end}}`, "/shop-web-1 /shop-web-2 h2/h2--shop-web-1 "},
		{`{{range (service "shop/web").Draining}}{{.HostPort}}{{else}}none{{end}}`, "172.18.0.5:8080"},
		{"{{if false}}x{{end}} \n", "error: own.tmpl makes an empty file: let it have at least a comment"},
		{`{{join ", " (service "shop/web").Ready}}`, "…"},
		{`{{join ", " 5}}`, "error: own.tmpl:1:2: executing \"own.tmpl\" at <join \", \" 5>: error calling join: join needs a list, not int"},
		{`{{.Service}}`, `error: own.tmpl:1:2: executing "own.tmpl" at <.Service>: can't evaluate field Service in type files.Data`},
	} {
		tmpl, err := Parse("own.tmpl", tt.text)
		var got []byte
		if err == nil {
			got, err = tmpl.render(sample())
		}
		text := string(got)
		if err != nil {
			text = "error: " + err.Error()
		}
		if tt.want != "…" && text != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.text, text, tt.want)
		}
	}
}

// A template that does not end, or makes too much, is an error that says where, and takes neither long nor much memory.
func TestTemplateThatDoesNotEnd(t *testing.T) {
	for what, tt := range map[string]struct{ text, want string }{
		"an empty loop":     {"\n{{range 1000000000}}{{end}}", "own.tmpl:2:8: it takes more than 1000000 steps or 2s: does it end?"},
		"nested loops":      {"{{range 100000}}{{range 100000}}{{if true}}{{end}}{{end}}{{end}}", "own.tmpl:1:24: it takes more than"},
		"loop in an else":   {"{{range 0}}{{else}}{{if false}}{{else}}{{with 1}}{{range 1000000000}}{{continue}}{{end}}{{end}}{{end}}{{end}}", "own.tmpl:1:57: it takes more than"},
		"itself":            {`{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, "templates call each other more than 100 deep"},
		"each other":        {`{{define "a"}}{{template "b" .}}{{end}}{{define "b"}}{{template "a" .}}{{end}}{{template "a" .}}`, "templates call each other more than 100 deep"},
		"twice itself":      {`{{define "a"}}{{if gt . 0}}{{template "a" (slice "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" . | len)}}{{template "a" 36}}{{end}}{{end}}{{template "a" 1}}`, "own.tmpl:1"},
		"a flood":           {`{{range 1000}}{{printf "%100000d" 1}}{{end}}`, "it makes more than 16 MB"},
		"a doubling text":   {`{{$x := "xxxxxxxxxxxxxxxx"}}{{range 60}}{{$x = print $x $x}}{{end}}`, "it makes more than 16 MB"},
		"a replaced text":   {`{{$x := printf "%1000000d" 1}}{{replace " " $x $x}}`, "it makes more than 16 MB"},
		"a joined list":     {`{{$x := printf "%1000000d" 1}}{{range 100}}{{join $x services}}{{end}}`, "it makes more than 16 MB"},
		"escapes that grow": {`{{$x := "<"}}{{range 60}}{{$x = html $x $x}}{{end}}`, "it makes more than 16 MB"},
	} {
		tmpl, err := Parse("own.tmpl", tt.text)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if what != "nested loops" { // of one, all
			tmpl.steps = 20_000
		}
		if _, err := tmpl.render(sample()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", what, err, tt.want)
		}
		if *tmpl.run != (rendering{}) {
			t.Errorf("%s: something is left of it", what)
		}
	}
}

// A template that a daemon uses for years renders the same again.
func TestRenderAgain(t *testing.T) {
	tmpl := mustParse(t, `{{define "m"}}{{.HostPort}} {{end}}{{range services}}{{range .Ready}}{{template "m" .}}{{end}}{{end}}`)
	first := mustRender(t, tmpl, sample())
	if second := mustRender(t, tmpl, sample()); first != second || !strings.Contains(first, "172.18.0.2:8080") {
		t.Errorf("got %q and %q", first, second)
	}
}

// A mistake shows although the host has no services yet, and although none of the sample's is one of the file's.
func TestTry(t *testing.T) {
	none := func(string) bool { return false }
	for _, text := range []string{`x{{range services}}{{range .Ready}}{{.Nothing}}{{end}}{{end}}`, `{{range services}}x{{end}}`} {
		if err := mustParse(t, text).Try(none); err == nil {
			t.Errorf("%s was not found wrong", text)
		}
	}
	for _, name := range shipped() {
		if err := mustShip(t, name).Try(none); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	onlyWeb := func(name string) bool { return name == "shop/web" }
	if err := mustParse(t, `{{(service "shop/db").Name}}`).Try(onlyWeb); err == nil || !strings.Contains(err.Error(), "shop/db is not in the key services of the file") {
		t.Errorf("got %v", err)
	}
}

// FuzzRender has names, addresses and ports as somebody may choose them who may start containers: what is made has no
// character of theirs that means something.
func FuzzRender(f *testing.F) {
	f.Add("shop/web", "shop-web-1", "id", "172.18.0.2", 80)
	f.Add("a; } server evil:1", "x\" }\n", "{{", "::1%x;", 80)
	f.Add("shop/web/x", "{http.request.host}", "", "fd00::1", 70000)
	f.Fuzz(func(t *testing.T, service, container, id, address string, port int) {
		e := supervisor.Endpoint{Container: container, ID: id, Address: address, Port: port, Ready: true}
		s := snapshotOf([]supervisor.Service{{Name: service, Endpoints: []supervisor.Endpoint{e}}}, everything, []string{service, container})
		for _, name := range shipped() {
			checkShape(t, name, mustRender(t, mustShip(t, name), s))
		}
	})
}
