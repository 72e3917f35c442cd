package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"healthd/e2e/harness"
)

// promtool accepts what is shipped, and runs the tests of the alerts.
func TestPromtool(t *testing.T) {
	t.Parallel()
	tool := harness.FindProgram(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "healthd.rules.yml"}, {"test", "rules", "healthd.rules.test.yml", "healthd.rules.days.test.yml"},
	} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = observability
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

var alertName = regexp.MustCompile(`(?ms)^ +- alert: (\w+)$.*?^ +severity: (\w+)$`)

// Each alert has a test in which it fires, with looks at what is like its cause, at which it does not, and a row in
// docs/metrics.md.
func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("../../docs/metrics.md")
	tests := read(filepath.Join(observability, "healthd.rules.test.yml")) + read(filepath.Join(observability, "healthd.rules.days.test.yml"))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range strings.Split(tests, "\n  - name: ")[1:] {
		name, text, _ := strings.Cut(test, "\n")
		for _, look := range strings.Split(text, "eval_time: ")[1:] {
			if strings.Contains(look, fmt.Sprintf("alertname=%q", name)) {
				fires[name] = true
			} else {
				quiet[name] = true
			}
		}
	}
	alerts := alertName.FindAllStringSubmatch(read(filepath.Join(observability, "healthd.rules.yml")), -1)
	for _, found := range alerts {
		if name := found[1]; !fires[name] || !quiet[name] {
			t.Errorf("%s: a test in which it fires: %v, and one in which it does not: %v", name, fires[name], quiet[name])
		}
		if row := fmt.Sprintf("\n| `%s` | %s | ", found[1], found[2]); !strings.Contains(page, row) {
			t.Errorf("docs/metrics.md has no row %s", row)
		}
	}
	if rows := strings.Count(page, "\n| `Healthd"); rows != len(alerts) {
		t.Errorf("docs/metrics.md has %d alerts, there are %d", rows, len(alerts))
	}
	if len(alerts) < 20 || len(fires) > len(alerts) {
		t.Errorf("%d alerts, %d with tests", len(alerts), len(fires))
	}
}
