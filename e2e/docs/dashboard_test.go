package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dashboard is the part of Grafana's model of a dashboard that these tests look at.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Annotations   struct{ List []struct{ Name, Expr string } }
	Templating    struct{ List []variable }
}

type variable struct{ Name, Type, Query string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *datasource
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct {
		RefID, Expr    string
		Range, Instant bool
		Datasource     *datasource
	}
	FieldConfig struct{ Defaults struct{ Unit string } }
}

type datasource struct{ Type, UID string }

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(observability, "grafana-healthd.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// What Grafana would show, but not as it is meant. Grafana itself is not in Debian.
func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	const columns = 24
	d := readDashboard(t)
	if d.UID != "healthd" || d.SchemaVersion < 38 || len(d.Panels) < 30 {
		t.Errorf("uid %s, schema %d, %d panels", d.UID, d.SchemaVersion, len(d.Panels))
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("%s: its id %d is also that of %q", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.X < 0 || g.W <= 0 || g.H <= 0 || g.X+g.W > columns {
			t.Errorf("%s: %+v is not in the %d columns", p.Title, g, columns)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s and %s overlap at column %d, row %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			p.check(t)
		}
	}
	variables := []string{"datasource", "instance", "service", "container"}
	for _, v := range d.Templating.List {
		variables = slices.DeleteFunc(variables, func(name string) bool { return name == v.Name })
	}
	if len(variables) > 0 {
		t.Errorf("there are no variables %v", variables)
	}
}

func (p panel) check(t *testing.T) {
	t.Helper()
	ours := datasource{"prometheus", "${datasource}"}
	if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource == nil || *p.Datasource != ours || len(p.Targets) == 0 {
		t.Errorf("panel %d %q has no title, unit, query or data source", p.ID, p.Title)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if q.Datasource == nil || *q.Datasource != ours || refs[q.RefID] || q.Range == q.Instant {
			t.Errorf("%s: query %s: %+v", p.Title, q.RefID, q)
		}
		refs[q.RefID] = true
		if strings.Contains(q.Expr, "prober_") {
			t.Errorf("%s: %s: the configuration drops prober_*", p.Title, q.Expr)
		}
	}
}
