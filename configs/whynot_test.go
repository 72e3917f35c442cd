package configs

import (
	"slices"
	"testing"

	"healthd/runtime"
)

func TestWhyNot(t *testing.T) {
	c := mustParse(t, webSpec)
	const none = "it has no label that begins with healthd."
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   []string
	}{
		{"supervised", labels("com.docker.compose.service=web"), nil},
		{"invalid", labels("healthd.x=1"), nil},
		{"disabled", labels("healthd.enable=false"), []string{`it has the label healthd.enable="false"`}},
		{"one-off", labels("com.docker.compose.service=web", "com.docker.compose.oneoff=True"),
			[]string{"docker compose run made it for one command, and it has no label healthd.enable=true"}},
		{"another", labels("com.docker.compose.service=db\x1b"), []string{
			none,
			`spec web (healthd.toml:2): its label com.docker.compose.service is "db\x1b", not web, and it has no label com.example.stage`,
			`spec any-web (healthd.toml:13): its label com.docker.compose.service is "db\x1b", not web*`,
			"spec fixed (healthd.toml:17): no match, only the label healthd.spec=fixed chooses it",
			"spec bare (healthd.toml:26): no match, only the label healthd.spec=bare chooses it",
		}},
	} {
		if got := c.WhyNot(runtime.Traits{Name: "c", Labels: tt.labels}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, labels := range []map[string]string{labels("healthd.enable=true"), labels("healthd.x=1"), labels("com.docker.compose.service=web"), nil} {
		self := runtime.Traits{Name: "healthd", Labels: labels, Self: true}
		spec, err := c.Resolve(self)
		if got := c.WhyNot(self); !slices.Equal(got, []string{WhySelf}) || spec != nil || err != nil || c.MaySupervise(self) {
			t.Errorf("healthd's own container %v: %q, %v, %v", labels, got, spec, err)
		}
	}
	near := c.NearestWhyNot(runtime.Traits{Name: "shop-wbe-1", Labels: labels("com.docker.compose.service=wbe")})
	if want := []string{
		none, `spec web (healthd.toml:2): its label com.docker.compose.service is "wbe", not web, and it has no label com.example.stage`,
		`spec any-web (healthd.toml:13): its label com.docker.compose.service is "wbe", not web*`,
	}; !slices.Equal(near, want) {
		t.Errorf("nearest: got %q, want %q", near, want)
	}
	clipped := runtime.Traits{Name: "c", Labels: labels(runtime.LabelsClipped + "=")}
	if got := mustParse(t, "").WhyNot(clipped); len(got) != 2 || got[0] != labelsClipped {
		t.Errorf("a container with more labels than healthd reads: %q", got)
	}
	if got := mustParse(t, "").WhyNot(runtime.Traits{Name: "c", Labels: nil}); len(got) != 1 || got[0] != none+", and there is no [[spec]]" {
		t.Errorf("without specs: %q", got)
	}
}
