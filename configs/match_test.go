package configs

import (
	"slices"
	"strings"
	"testing"

	"healthd/runtime"
)

const matched = `
[[spec]]
name = "alternatives"
match = [{ role = "api", stage = "live" }, { service = "api-*" }]

[[spec]]
name = "named"
match_name = "shop-api-*"

[[spec]]
name = "pictured"
match_image = "registry.example/shop/*"
match = { team = "shop" }
`

func TestMatch(t *testing.T) {
	c := mustParse(t, matched)
	for _, tt := range []struct {
		what string
		of   runtime.Traits
		spec string // empty: none
		by   string
	}{
		{"the first alternative", runtime.Traits{Labels: labels("role=api", "stage=live")}, "alternatives", "match role=api, stage=live (healthd.toml:2)"},
		{"the second alternative", runtime.Traits{Labels: labels("service=api-2")}, "alternatives", "match service=api-* (healthd.toml:2)"},
		{"half of an alternative", runtime.Traits{Labels: labels("role=api")}, "", ""},
		{"name", runtime.Traits{Name: "shop-api-7"}, "named", "match_name shop-api-* (healthd.toml:6)"},
		{"part of a name", runtime.Traits{Name: "my-shop-api-7"}, "", ""},
		{"image and label", runtime.Traits{Image: "registry.example/shop/api:1", Labels: labels("team=shop")}, "pictured",
			"match team=shop, match_image registry.example/shop/* (healthd.toml:10)"},
		{"image alone", runtime.Traits{Image: "registry.example/shop/api:1"}, "", ""},
		{"another image", runtime.Traits{Image: "nginx:1", Labels: labels("team=shop")}, "", ""},
		{"unknown image", runtime.Traits{Labels: labels("team=shop")}, "", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			spec, err := c.Resolve(tt.of)
			switch {
			case err != nil:
				t.Fatal(err)
			case spec == nil && tt.spec != "":
				t.Errorf("left alone: %q", c.WhyNot(tt.of))
			case spec != nil && (spec.Name != tt.spec || spec.MatchedBy != tt.by):
				t.Errorf("got spec %q by %q", spec.Name, spec.MatchedBy)
			}
		})
	}
}

// A list of the engine, or an event, may not know the image: the inspection that follows does.
func TestMaySuperviseWithoutImage(t *testing.T) {
	c := mustParse(t, matched)
	for _, tt := range []struct {
		what string
		of   runtime.Traits
		want bool
	}{
		{"all but the image fits", runtime.Traits{Labels: labels("team=shop")}, true},
		{"another label", runtime.Traits{Labels: labels("team=else")}, false},
		{"disabled", runtime.Traits{Labels: labels("team=shop", "healthd.enable=false")}, false},
		{"another image", runtime.Traits{Image: "nginx:1", Labels: labels("team=shop")}, false},
		{"invalid", runtime.Traits{Labels: labels("healthd.x=1")}, true},
	} {
		if got := c.MaySupervise(tt.of); got != tt.want {
			t.Errorf("%s: got %v", tt.what, got)
		}
	}
}

func TestWhyNoMatch(t *testing.T) {
	got := mustParse(t, matched).WhyNot(runtime.Traits{Name: "db", Image: "nginx:1", Labels: labels("role=api", "service=db")})
	want := []string{
		"it has no label that begins with healthd.",
		`spec alternatives (healthd.toml:2): it has no label stage, or its label service is "db", not api-*`,
		`spec named (healthd.toml:6): its name is "db", not shop-api-*`,
		`spec pictured (healthd.toml:10): its image is "nginx:1", not registry.example/shop/*, and it has no label team`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		wide, narrow string
		want         bool
	}{
		{`match = { a = "*" }`, `match = { a = "1", b = "2" }`, true},
		{`match = { a = "1", b = "2" }`, `match = { a = "1" }`, false},
		{`match = [{ a = "1" }, { b = "1" }]`, `match = { b = "1" }`, true},
		{`match = { a = "1" }`, `match = [{ a = "1" }, { b = "1" }]`, false},
		{`match = [{ a = "1" }, { b = "*" }]`, `match = [{ b = "1" }, { a = "1", c = "1" }]`, true},
		{`match_name = "web*"`, `match_name = "web-1"`, true},
		{`match_name = "web*"`, `match = { a = "1" }`, false},
		{`match = { a = "1" }`, "match = { a = \"1\" }\nmatch_name = \"x\"", true},
		{"match = { a = \"1\" }\nmatch_image = \"x\"", `match = { a = "1" }`, false},
		{`match_image = "nginx:*"`, "match_image = \"nginx:1\"\nmatch = { a = \"1\" }", true},
	} {
		c := mustParse(t, "[[spec]]\nname = \"wide\"\n"+tt.wide+"\n[[spec]]\nname = \"narrow\"\n"+tt.narrow+"\n")
		if got := c.specs[0].matcher.covers(&c.specs[1].matcher); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.wide, tt.narrow, got)
		}
	}
}
