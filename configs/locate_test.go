package configs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// linesOf returns the line of every key and element below n, by its path.
func linesOf(n *node) map[string]int {
	lines := map[string]int{}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if path != "" {
			lines[path] = n.at.line
		}
		for key, field := range n.fields {
			walk(field, path+"."+strconv.Quote(key))
		}
		for i, item := range n.items {
			walk(item, path+index(i))
		}
	}
	walk(n, "")
	return lines
}

func TestLocate(t *testing.T) {
	text := strings.Join([]string{
		1:  `# [no] = "table"`,
		2:  `a = """ # no comment`,
		3:  `b = 1`,
		4:  `\""" "" """"" # """`,
		5:  `'c.d' . "e=\u0066" = ['''`,
		6:  `x = ''''', # ]`,
		7:  `  { f = 1979-05-27 07:32:00, g.h = [`,
		8:  `  [], 0x1,`,
		9:  `  ] }, "]" ]`,
		10: `[i.j] # [k]`,
		11: `[i]`,
		12: `"" = "#"`,
		13: `[[l]]`,
		14: `[[l.m]]`,
		15: `[[ l ]]`,
		16: `[[l . m]]`,
		17: `n = inf`,
	}, "\r\n")
	want := map[string]int{
		`."a"`:   2,
		`."c.d"`: 5, `."c.d"."e=f"`: 5, `."c.d"."e=f"[0]`: 5, `."c.d"."e=f"[1]`: 7, `."c.d"."e=f"[2]`: 9,
		`."c.d"."e=f"[1]."f"`: 7, `."c.d"."e=f"[1]."g"`: 7, `."c.d"."e=f"[1]."g"."h"`: 7,
		`."c.d"."e=f"[1]."g"."h"[0]`: 8, `."c.d"."e=f"[1]."g"."h"[1]`: 8,
		`."i"`: 11, `."i"."j"`: 10, `."i".""`: 12,
		`."l"`: 13, `."l"[0]`: 13, `."l"[0]."m"`: 14, `."l"[0]."m"[0]`: 14,
		`."l"[1]`: 15, `."l"[1]."m"`: 16, `."l"[1]."m"[0]`: 16, `."l"[1]."m"[0]."n"`: 17,
	}
	text = strings.TrimPrefix(text, "\r\n") // the list leaves out line 0
	root, err := parseTOML(place{file: "f.toml"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := linesOf(root); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// What docs/configuration.md says of TOML 1.1.
func TestLocateTOML11(t *testing.T) {
	root, err := parseTOML(place{file: "f.toml"}, []byte("a = {\n\tb = \"\\e\\x41\", # a comment\n\n  c = 07:32,\n}\n\"\\x42\" = 1979-05-27 07:32Z"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{`."a"`: 1, `."a"."b"`: 2, `."a"."c"`: 4, `."B"`: 6}
	if got := linesOf(root); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := root.below("a.b").text; got != "\x1bA" {
		t.Errorf("got %q", got)
	}
}

// What the library drops or adds without a word, TOML forbids.
func TestLocateRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a key in a second array element whose first one has it as a table", "[[spec]]\n[spec.a.b]\n[[spec]]\na = 1\na = 2", "5: spec.a: is already set at f.toml:4"},
		{"a table in a second array element, twice", "[[spec]]\n[spec.a.b]\n[[spec]]\nname = 'x'\n[spec.a]\n[spec.a]", "6: spec[x].a: is already set at f.toml:5"},
		{"a table made by dotted keys", "[a]\nb.c = 1\n[a.b]", "3: a.b: is already set at f.toml:2"},
		{"dotted keys into a table", "[a.b.c]\n[a]\nb.c.d = 1", "3: a.b.c: is already set at f.toml:1"},
		{"dotted keys into an inline table", "a = {}\na.b = 1", "2: a: is already set at f.toml:1"},
		{"dotted keys into a number", "a = 1\na.b = 1", "2: a: is already set at f.toml:1"},
		{"a table in an inline table", "a = {}\n[a.b]", "2: a: is already set at f.toml:1"},
		{"a table in a number", "[a]\nb = 1\n[a.b.c]", "3: a.b: is already set at f.toml:2"},
		{"a table in an array", "[b]\na = [{}]\n[b.a.c]", "3: b.a: is already set at f.toml:2"},
		{"an array of tables that is an array", "a = [{}]\n[[a]]", "2: a: is already set at f.toml:1"},
		{"an array of tables that is a table", "[a]\n[[a]]", "2: a: is already set at f.toml:1"},
		{"a table that is an array of tables", "[[spec]]\n[spec]", "2: spec: is an array of tables at f.toml:1: use [[ ]] to add to it"},
		{"a table that is an array of tables inside a table", "[[a]]\n[[a.'b c'.d]]\n[a.'b c'.d]", "3: a.\"b c\".d: is an array of tables at f.toml:2: use [[ ]] to add to it"},
		{"within an inline table", "[[r]]\na = 1\n[[r.b]]\n[[r.b]]\nc = [1,\n{d.e = 1, d = 2}]", "6: r.b[1].c[1].d: is already set at f.toml:6"},
		{"nested arrays", "a =\t" + strings.Repeat("[", 10_000_000), "1: a" + strings.Repeat("[0]", 63) + ": is nested more than 64 levels deep"},
		{"nested inline tables", "\na = " + strings.Repeat("{a = ", 64), "2: a.a.a: is nested more than 64 levels deep"},
		{"a dotted key", "b = 1\na" + strings.Repeat(".a", 1_000_000) + " = 1", "2: a: is nested more than 64 levels deep"},
		{"a header", "b = 1\n[a" + strings.Repeat(".a", 1_000_000) + "]", "2: a: is nested more than 64 levels deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseTOML(place{file: "f.toml"}, []byte(c.text))
			if want := "f.toml:" + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// Where the locator and the library should ever disagree, there is no line.
func TestNoLineRatherThanAWrongOne(t *testing.T) {
	const text = "[[spec]]\nname = 'web'\ncolour = 3.0\nx = 1979-05-27\n"
	right := locate(place{}, text).root
	decoded := map[string]any{"spec": []map[string]any{{"name": "web", "colour": 3.0, "x": 1}}}
	if !fill(right, decoded) {
		t.Error("the same is not the same")
	}
	for _, other := range []string{
		"[[spec]]\nname = 'web'\ncolour = 3.0\n", "[[spec]]\nname = 'web'\ncolour = 3.0\ny = 1",
		"[[spec]]\nname = 'web'\ncolour = '3.0'\nx = 1", "[[spec]]\nname = 1\ncolour = 3.0\nx = 1",
		"[[spec]]\nname = 'web'\ncolour = []\nx = 1", "[spec]", "spec = 1", "spec = []", "",
	} {
		if fill(locate(place{}, other).root, decoded) {
			t.Errorf("%q is taken for %q", other, text)
		}
	}
	n := nodeOf(decoded, place{file: "f.toml"})
	s, _ := readFileSpec(n.fields["spec"].items[0], 1)
	s.node = s.own
	problems := s.check()
	if want := "f.toml: spec[web].colour: unknown key\nf.toml: spec[web].x: unknown key"; problems.Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	if got := n.at.String(); got != "f.toml" {
		t.Errorf("got origin %q", got)
	}
}

// document makes TOML whose lines are known.
type document struct {
	*rand.Rand
	text    strings.Builder
	line    int
	newline string
	want    map[string]int
	keys    int // made so far
	tables  []openTable
	section openTable // the one that is open
}

// openTable is a table to which a header can add others. An implied one may still
// have a header of its own.
type openTable struct {
	written, path string
	implied       bool
}

func newDocument(seed uint64) *document {
	d := &document{Rand: rand.New(rand.NewPCG(seed, 0)), line: 1, newline: "\n", want: map[string]int{}}
	if d.odds(3) {
		d.newline = "\r\n"
	}
	d.tables = []openTable{{}}
	d.pairs("", d.IntN(4), d.end)
	for range d.IntN(8) {
		d.header()
		d.pairs(d.section.path, d.IntN(5), d.end)
	}
	return d
}

func (d *document) odds(n int) bool { return d.IntN(n) == 0 }

func (d *document) pick(of ...string) string { return of[d.IntN(len(of))] }

// write adds s, with the line ends of the document.
func (d *document) write(s string) {
	d.text.WriteString(strings.ReplaceAll(s, "\n", d.newline))
	d.line += strings.Count(s, "\n")
}

func (d *document) blank() { d.write(d.pick("", "", " ", "\t ")) }

// space may end lines.
func (d *document) space() {
	for d.odds(3) {
		d.write(d.pick(" ", "\n", "# ] } \"\"\" ''' [a] = {\n", "\t\n\n"))
	}
}

// end ends a line.
func (d *document) end() {
	d.blank()
	d.write(d.pick("", "", "#", "# a = 1 [\"'", "#\t'''"))
	for ok := true; ok; ok = d.odds(4) {
		d.write("\n")
	}
}

// key returns a new key, as written and as it is.
func (d *document) key() (written, key string) {
	d.keys++
	name := "k" + strconv.Itoa(d.keys)
	odd := d.pick("", ".", "#", "=", "[]", "{}", ", ", "é", "'")
	switch d.IntN(4) {
	case 0:
		return `"` + name + odd + `\t\"\u00e9\\"`, name + odd + "\t\"é\\"
	case 1:
		odd = strings.ReplaceAll(odd, "'", `"\`)
		return "'" + name + odd + "'", name + odd
	}
	return name, name
}

// below notes the line of a key and returns its path.
func (d *document) below(path, key string) string {
	path += "." + strconv.Quote(key)
	d.want[path] = d.line
	return path
}

// pairs writes n pairs into the table at path and calls after behind each of them.
func (d *document) pairs(path string, n int, after func()) {
	prefix, inside := "", path
	for range n {
		d.blank()
		if d.odds(2) { // otherwise another key in the last table made by dots
			prefix, inside = "", path
		}
		d.write(prefix)
		for d.odds(4) {
			written, key := d.key()
			written += d.pick(".", " . ", "\t.")
			d.write(written)
			prefix, inside = prefix+written, d.below(inside, key)
		}
		written, key := d.key()
		d.write(written)
		d.blank()
		d.write("=")
		d.blank()
		d.value(d.below(inside, key), 3)
		after()
	}
}

func (d *document) value(path string, depth int) {
	if depth > 0 && d.odds(3) {
		d.array(path, depth-1)
		return
	}
	if depth > 0 && d.odds(3) {
		d.inline(path)
		return
	}
	d.write(d.pick("1", "-17", "0xDEAD_beef", "1_000", "3.0", "-inf", "6.02e23", "true", "false",
		"1979-05-27", "1979-05-27 07:32:00", "07:32:00.5", "1979-05-27T00:32:00.999-07:00",
		`""`, `"# [a] = {"`, `"\"\\"`, `"\\"`, `"'''"`, "''", `'"""'`, `'\'`, `'[[a]]'`,
		`""""""`, `"""a"""`, "\"\"\"\n\n[b]\nc = 1 # \n\"\"\"", `"""""a""\""""""`, "\"\"\"\\\n  a = 1\n'''\"\"\"", `"""\\"""`,
		"''''''", "'''\n[b]\n\\'''", "''''a''b'''''", "'''\"\"\"\n#'''"))
}

func (d *document) array(path string, depth int) {
	d.write("[")
	d.space()
	n := d.IntN(4)
	for i := range n {
		d.want[path+index(i)] = d.line
		d.value(path+index(i), depth)
		d.space()
		if i < n-1 || d.odds(3) {
			d.write(",")
			d.space()
		}
	}
	d.write("]")
}

func (d *document) inline(path string) {
	d.write("{")
	d.space()
	n := d.IntN(4)
	d.pairs(path, n, func() {
		d.space()
		if n--; n > 0 || d.odds(3) {
			d.write(",")
			d.space()
		}
	})
	d.write("}")
}

// header opens a table.
func (d *document) header() {
	d.blank()
	implied := func(t openTable) bool { return t.implied }
	if i := slices.IndexFunc(d.tables, implied); i >= 0 && d.odds(3) {
		d.tables[i].implied = false
		d.section = d.tables[i]
		d.want[d.section.path] = d.line
		d.write("[" + d.section.written + "]")
		d.end()
		return
	}
	d.section = d.tables[d.IntN(len(d.tables))]
	if d.odds(2) {
		d.write("[[")
		d.newKeys(true)
		d.openItem(0)
		d.write("]]")
		d.end()
		if d.odds(2) {
			d.again()
		}
		return
	}
	d.write("[")
	d.newKeys(false)
	d.write("]")
	d.end()
}

// newKeys writes the section's keys and new ones. The last key of an array is left
// to openItem.
func (d *document) newKeys(array bool) {
	d.blank()
	d.write(d.section.written)
	for more := true; more; {
		if d.section.written != "" {
			d.section.written += "."
			d.write(".")
		}
		written, key := d.key()
		written += d.pick("", " ")
		d.write(written)
		d.section.written += written
		d.section.path = d.below(d.section.path, key)
		more = d.odds(3)
		d.section.implied = more
		if more || !array {
			d.tables = append(d.tables, d.section)
		}
	}
}

func (d *document) openItem(i int) {
	d.section.path += index(i)
	d.want[d.section.path] = d.line
	d.tables = append(d.tables, d.section)
}

// again opens more elements of the array of tables that is open.
func (d *document) again() {
	list := strings.TrimSuffix(d.section.path, index(0))
	for i := 1; i == 1 || d.odds(3); i++ {
		d.pairs(d.section.path, d.IntN(3), d.end)
		old := d.section.path
		d.tables = slices.DeleteFunc(d.tables, func(t openTable) bool { return strings.HasPrefix(t.path, old) })
		d.write("[[" + d.section.written)
		d.section.path = list
		d.openItem(i)
		d.write("]]")
		d.end()
	}
}

// FuzzLocate compares the lines with those of a document that is made from seed. What
// junk does to it must end in an error or in lines.
func FuzzLocate(f *testing.F) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		f.Add(seed, uint(0), []byte(nil))
	}
	for i, junk := range []string{"\"", "'''", "[", "]]", "{", "}", "a.b = 1\n", "\\", "\n", "\r", "\x00", "\xff", ",", "=", "#", `\\""""""`, "\ufeff"} {
		f.Add(uint64(i), uint(37*i), []byte(junk))
	}
	f.Fuzz(func(t *testing.T, seed uint64, at uint, junk []byte) {
		d := newDocument(seed)
		text := d.text.String()
		root, err := parseTOML(place{file: "f.toml"}, []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := linesOf(root); !maps.Equal(got, d.want) {
			t.Fatalf("%s\n%s", text, difference(got, d.want))
		}
		d.twice(t)
		at %= uint(len(text) + 1)
		checkTree(t, []byte(text[:at]+string(junk)+text[at:]))
		checkTree(t, junk)
	})
}

// twice sets a key of the last table once more.
func (d *document) twice(t *testing.T) {
	t.Helper()
	for path, line := range d.want {
		key, err := strconv.Unquote(strings.TrimPrefix(path, d.section.path+"."))
		if err != nil || !strings.HasPrefix(path, d.section.path+".") {
			continue
		}
		text := d.text.String() + quoteTOML(key) + " = 1"
		_, err = parseTOML(place{file: "f.toml"}, []byte(text))
		want := fmt.Sprintf("%s: is already set at f.toml:%d", showKey(key), line)
		tables := fmt.Sprintf("%s: is an array of tables at f.toml:%d: use [[ ]] to add to it", showKey(key), line)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, fmt.Sprintf("f.toml:%d: ", d.line)) || !strings.HasSuffix(got, want) && !strings.HasSuffix(got, tables) {
			t.Fatalf("got %s, want %s\n%s", got, want, text)
		}
		return
	}
}

func difference(got, want map[string]int) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			fmt.Fprintf(&b, "%s: got line %d, want %d\n", path, got[path], want[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[path]; !ok {
			fmt.Fprintf(&b, "%s: got line %d, want none\n", path, got[path])
		}
	}
	return b.String()
}
