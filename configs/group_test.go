package configs

import (
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

const groupSpec = `
[[spec]]
name = "grouped"

[spec.group]
name = "shop/web"
max_unavailable = "25%"
`

func TestGroup(t *testing.T) {
	number := func(n int) core.Share { return core.Share{Number: n} }
	percent := func(p int) core.Share { return core.Share{Percent: p} }
	tests := []struct {
		name, text string
		labels     []string // below healthd.group.
		want       core.Group
	}{
		{"none", "", nil, core.Group{MaxUnavailable: number(1)}},
		{"number", "max_unavailable = 2", nil, core.Group{MaxUnavailable: number(2)}},
		{"most", "max_unavailable = 1_000_000", nil, core.Group{MaxUnavailable: number(1_000_000)}},
		{"per cent", `max_unavailable = "25%"`, nil, core.Group{MaxUnavailable: percent(25)}},
		{"least per cent", `max_unavailable = "1%"`, nil, core.Group{MaxUnavailable: percent(1)}},
		{"most per cent", `max_unavailable = "100%"`, nil, core.Group{MaxUnavailable: percent(100)}},
		{"name", `name = "web"`, nil, core.Group{Name: "web", MaxUnavailable: number(1)}},
		{"parts", `name = "a_1/b-2/c.3"`, nil, core.Group{Name: "a_1/b-2/c.3", MaxUnavailable: number(1)}},
		{"name by label", "", []string{"name=shop/web"}, core.Group{Name: "shop/web", MaxUnavailable: number(1)}},
		{"number over per cent", `max_unavailable = "25%"`, []string{"max_unavailable=2"}, core.Group{MaxUnavailable: number(2)}},
		{"per cent over number", "max_unavailable = 2", []string{"max_unavailable=25%"}, core.Group{MaxUnavailable: percent(25)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pairs := []string{"com.docker.compose.project=shop"}
			for _, pair := range tt.labels {
				pairs = append(pairs, "healthd.group."+pair)
			}
			if got := resolveText(t, "[spec.group]\n"+tt.text, pairs...).Group; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestGroupValues(t *testing.T) {
	tests := []struct {
		text  string
		label string
		want  string
	}{
		{"", "healthd.liveness.tcp_socket.port=1", `group.name = the Compose project and service, else the container alone  (default)
group.max_unavailable = 1  (default)
`},
		{groupSpec, "healthd.spec=grouped", `group.name = "shop/web"  (healthd.toml:6)
group.max_unavailable = "25%"  (healthd.toml:7)
`},
		{"[[spec]]\nname = \"a\"\nmatch = { a = \"b\" }\ngroup.max_unavailable = 3\n", "a=b",
			`group.name = the Compose project and service, else the container alone  (default)
group.max_unavailable = 3  (healthd.toml:4)
`},
	}
	for _, tt := range tests {
		spec, err := mustParse(t, tt.text).Resolve(runtime.Traits{Name: "c", Labels: labels(tt.label)})
		if err != nil {
			t.Fatal(err)
		}
		if got := showValues(valuesBelow(spec, "group")); got != tt.want {
			t.Errorf("got:\n%swant:\n%s", got, tt.want)
		}
	}
	spec := resolveText(t, "group.name = \"a\"", "healthd.group.name=a/b", "healthd.group.max_unavailable=07%", "com.docker.compose.project=a")
	const want = `group.name = "a/b"  (label healthd.group.name)
group.max_unavailable = "7%"  (label healthd.group.max_unavailable)
`
	if got := showValues(valuesBelow(spec, "group")); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
