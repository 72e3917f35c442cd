package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"healthd/configs"
	"healthd/supervisor/core"
	"healthd/supervisor/notify"
)

// What the configuration takes is what there is.
func TestNotifyWords(t *testing.T) {
	if got, want := configs.IncidentReasons(), notify.Reasons(); !slices.Equal(got, want) {
		t.Errorf("incidents %v, want %v", got, want)
	}
	want := append(eventConstants(t), core.WaitGroupLimit, core.WaitRestartBudget, core.WaitHostSuspect)
	got := configs.EventReasons()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// eventConstants returns the values of all constants of the supervisor's packages that are called Event….
func eventConstants(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("../../supervisor", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Event") {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Error(err)
				}
				all = append(all, text)
			}
			return true
		})
		return nil
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("found %v: %v", all, err)
	}
	return all
}

// All that a [[notify]] says reaches its receiver.
func TestReceiversOf(t *testing.T) {
	c, err := configs.Parse("healthd.toml", []byte(`
[[notify]]
name = "oncall"
webhook = "https://alerts.example/"
services = ["web"]
max_per_hour = 7

[[notify]]
name = "page"
command = ["page"]
reasons = ["OOMKilled"]
`))
	if err != nil {
		t.Fatal(err)
	}
	all := receiversOf(c)
	if len(all) != 2 || !reflect.DeepEqual(all[0].Reasons, notify.Reasons()) || !reflect.DeepEqual(all[1].Reasons, []string{"OOMKilled"}) ||
		!all[0].Wants("shop/web", "shop") || all[0].Wants("shop/db", "shop") || all[0].MaxPerHour != 7 || all[0].Repeat != c.Notify[0].Repeat {
		t.Errorf("got %+v", all)
	}
}
