package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// notAgainstAnybody are limits that bound no hostile input: intervals, slips in files, and what others' limits
// follow from.
var notAgainstAnybody = regexp.MustCompile(`(?i)(retry|reconnect|poll|pause|delay|repeats|history|attempts|missed|operations|quote|granted|batch|causes|recent|` +
	`killEvents|startError|pageSize|stopTimeout|backoff|threshold|members|restarts|namespaces|hosts|patterns|alternatives|sockets?|hold|body|` +
	`gate|configs\.maxName|haproxy\.maxName|maxAgentName|containerd\.maxNetworkDepth)(Max)?$|Default`)

// The table in docs/security.md has all bounds of the code, with their values.
func TestBoundsAreDocumented(t *testing.T) {
	documented := documentedBounds(t)
	found := map[string]bool{}
	for name, value := range boundsOf(t) {
		found[name] = true
		want, ok := documented[name]
		short := name[strings.LastIndexByte(name, '.')+1:]
		limit := strings.HasPrefix(strings.ToLower(short), "max") || strings.HasSuffix(short, "Max")
		switch {
		case ok && want != value:
			t.Errorf("%s is %d, documented as %d", name, value, want)
		case !ok && limit && !notAgainstAnybody.MatchString(name):
			t.Errorf("%s = %d is not documented", name, value)
		}
	}
	for name := range documented {
		if !found[name] {
			t.Errorf("%s is documented, and not there", name)
		}
	}
}

// documentedBounds returns the values of the table by PACKAGE.CONSTANT: numbers, bytes or nanoseconds.
func documentedBounds(t *testing.T) map[string]int64 {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute)}
	all := map[string]int64{}
	for _, row := range regexp.MustCompile("(?m)^\\|[^|]*\\| ([0-9,]+) ?([A-Za-z]*) \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		if err != nil || units[row[2]] == 0 {
			t.Errorf("what is %s %s?", row[1], row[2])
		}
		all[row[3]] = n * units[row[2]]
	}
	if len(all) < 30 {
		t.Fatalf("found %d bounds in the documentation", len(all))
	}
	return all
}

// boundsOf returns the constants of packages that have a number or a duration as their value.
func boundsOf(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	eachSource(t, []string{"prober", "runtime", "supervisor", "configs"}, func(name, path string) error {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for constant, value := range constants(file) {
			all[filepath.ToSlash(filepath.Dir(name))+"."+constant] = value
		}
		return nil
	})
	return all
}

// eachSource calls look for each file of the program in these top-level folders, tests and what only tests use aside. name is
// its path in the repository.
func eachSource(t *testing.T, rooms []string, look func(name, path string) error) {
	t.Helper()
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && strings.HasSuffix(entry.Name(), "test"):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			name, _ := filepath.Rel("../..", path)
			return look(name, path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func constants(file *ast.File) map[string]int64 {
	all := map[string]int64{}
	ast.Inspect(file, func(n ast.Node) bool {
		g, ok := n.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			return true
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, value := range spec.Values {
				if n, exact := constant.Int64Val(constant.ToInt(evaluate(value))); exact {
					all[spec.Names[i].Name] = n
				}
			}
		}
		return true
	})
	return all
}

// evaluate returns the value of numbers and durations, and Unknown for what has other constants in it.
func evaluate(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return evaluate(e.X)
	case *ast.SelectorExpr:
		unit, ok := map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		if ok {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.BinaryExpr:
		x, y := evaluate(e.X), evaluate(e.Y)
		if x.Kind() != constant.Int || y.Kind() != constant.Int {
			break
		}
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	return constant.MakeUnknown()
}
