package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

// The kubelet's maximum of a node is max, its reduced default an initial of 1 s.
func TestBackoff(t *testing.T) {
	tests := []struct {
		kubelet      string
		text         string // in backoff
		initial, max time.Duration
	}{
		{"185", `max = "2s"`, 2 * time.Second, 2 * time.Second},
		{"186", `initial = "1s", max = "2s"`, time.Second, 2 * time.Second},
		{"187", `initial = "1s", max = "10s"`, time.Second, 10 * time.Second},
		{"188", `initial = "1s", max = "300s"`, time.Second, 300 * time.Second},
		{"189", `max = "11s"`, 10 * time.Second, 11 * time.Second},
		{"190", `max = "300s"`, 10 * time.Second, 300 * time.Second},
		{"", "", 10 * time.Second, 5 * time.Minute},
		{"", `initial = "1s"`, time.Second, 5 * time.Minute},
		{"", `initial = "10m"`, 10 * time.Minute, 10 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if tt.kubelet != "" {
				t.Attr("kubelet", tt.kubelet)
			}
			spec := resolveText(t, "backoff = { "+tt.text+" }")
			want := core.Backoff{Initial: tt.initial, Max: tt.max, ResetAfter: 10 * time.Minute}
			if spec.Backoff != want {
				t.Errorf("got %+v, want %+v", spec.Backoff, want)
			}
			for key, d := range map[string]time.Duration{"initial": tt.initial, "max": tt.max} {
				origin := "default"
				if strings.Contains(tt.text, key) {
					origin = "healthd.toml:3"
				}
				want := []core.Value{{Path: "backoff." + key, Value: showDuration(d), Origin: origin}}
				if got := valuesBelow(spec, "backoff."+key); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
}

// valuesBelow returns the values whose path begins with prefix.
func valuesBelow(spec *core.Spec, prefix string) []core.Value {
	return slices.DeleteFunc(slices.Clone(spec.Settings()), func(v core.Value) bool {
		return !strings.HasPrefix(v.Path, prefix)
	})
}

// showValues returns one line for each value.
func showValues(values []core.Value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s = %s  (%s)\n", v.Path, v.Value, v.Origin)
	}
	return b.String()
}

func TestBackoffByLabel(t *testing.T) {
	tests := []struct {
		label        string
		initial, max time.Duration
	}{
		{"healthd.backoff.max=1s", time.Second, time.Second},
		{"healthd.backoff.initial=1h", time.Hour, time.Hour},
	}
	for _, tt := range tests {
		spec := resolveText(t, "", tt.label)
		if got := spec.Backoff; got.Initial != tt.initial || got.Max != tt.max {
			t.Errorf("%s: got %+v", tt.label, got)
		}
	}
}

func TestRestartPolicies(t *testing.T) {
	tests := []struct {
		name, text string
		want       core.RestartPolicy
	}{
		{"none", "", core.Always},
		{"Always", `restart_policy = "Always"`, core.Always},
		{"Never", `restart_policy = "Never"`, core.Never},
		{"OnFailure", `restart_policy = "OnFailure"`, core.OnFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "266")
			if got := resolveText(t, tt.text).RestartPolicy; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

const rulesText = `restart_policy = "Never"

[[spec.restart_rules]]
exit_codes = [42]
operator = "In"
action = "Restart"

[[spec.restart_rules]]
exit_codes = [0, 255, 0]
operator = "NotIn"
action = "Restart"
`

func TestRestartRules(t *testing.T) {
	t.Attr("kubelet", "266")
	spec := resolveText(t, rulesText)
	want := []core.RestartRule{
		{Operator: core.In, ExitCodes: []int{42}},
		{Operator: core.NotIn, ExitCodes: []int{0, 255, 0}},
	}
	if !reflect.DeepEqual(spec.RestartRules, want) {
		t.Errorf("got %v, want %v", spec.RestartRules, want)
	}
	const shown = `restart_rules[0].exit_codes = [42]  (healthd.toml:6)
restart_rules[0].operator = "In"  (healthd.toml:7)
restart_rules[0].action = "Restart"  (healthd.toml:8)
restart_rules[1].exit_codes = [0, 255, 0]  (healthd.toml:11)
restart_rules[1].operator = "NotIn"  (healthd.toml:12)
restart_rules[1].action = "Restart"  (healthd.toml:13)
`
	if got := showValues(valuesBelow(spec, "restart_rules")); got != shown {
		t.Errorf("got:\n%swant:\n%s", got, shown)
	}
}

// Rules need no policy beside them, as they do in Kubernetes.
func TestMostRestartRules(t *testing.T) {
	t.Attr("kubelet", "266")
	codes := strings.Repeat("42,", maxExitCodes)
	rule := "{ exit_codes = [" + codes + "], operator = \"In\", action = \"Restart\" },\n"
	spec := resolveText(t, "restart_rules = [\n"+strings.Repeat(rule, maxRestartRules)+"]\n")
	if got := spec.RestartRules; len(got) != maxRestartRules || len(got[19].ExitCodes) != maxExitCodes {
		t.Errorf("got %d rules", len(got))
	}
}

// A label replaces all rules of the spec.
func TestRestartRulesByLabel(t *testing.T) {
	const key = "healthd.restart_rules"
	spec := resolveText(t, rulesText, key+`=[{"exit_codes":[1,2],"operator":"NotIn","action":"Restart"}]`)
	want := []core.RestartRule{{Operator: core.NotIn, ExitCodes: []int{1, 2}}}
	if !reflect.DeepEqual(spec.RestartRules, want) {
		t.Errorf("got %v, want %v", spec.RestartRules, want)
	}
	const shown = `restart_rules[0].exit_codes = [1, 2]  (label healthd.restart_rules)
restart_rules[0].operator = "NotIn"  (label healthd.restart_rules)
restart_rules[0].action = "Restart"  (label healthd.restart_rules)
`
	if got := showValues(valuesBelow(spec, "restart_rules")); got != shown {
		t.Errorf("got:\n%swant:\n%s", got, shown)
	}
	spec = resolveText(t, rulesText, key+"=[]")
	if got := showValues(valuesBelow(spec, "restart_rules")); spec.RestartRules != nil || got != "restart_rules = []  (label "+key+")\n" {
		t.Errorf("got %v, shown as %s", spec.RestartRules, got)
	}
}
