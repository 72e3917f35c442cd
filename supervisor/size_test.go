package supervisor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Code that decides about restarts must fit a screen.
func TestFunctionsFitAScreen(t *testing.T) {
	const most = 60
	var files []string
	for _, pattern := range []string{"*.go", "core/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files: %v", err)
		}
		files = append(files, found...)
	}
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > most {
				t.Errorf("%s: %s has %d lines, at most %d are allowed", set.Position(fn.Pos()), fn.Name.Name, n, most)
			}
		}
	}
}
