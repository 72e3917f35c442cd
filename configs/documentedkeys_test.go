package configs

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"healthd/runtime"
)

// The page is also the manual page healthd.toml(5).
const reference = "../docs/configuration.md"

var (
	element    = regexp.MustCompile(`\[\d+\]`)
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	daemonPart = regexp.MustCompile("(?s)\n## The daemon\n.*?```toml\n(.*?)```")
	keyLine    = regexp.MustCompile(`^(?:# )?([a-z_]+) *=`)
	oneWord    = regexp.MustCompile(`^[a-z_]+$`)
	literal    = regexp.MustCompile("^(?:`([^`]+)`|(\\d+))(?:$|[,;])")
)

// keysOf returns the paths of all keys that read asks for. It finds those in tables and lists by
// giving each key that it knows one with nothing in it, until there is no new one.
func keysOf(read func(*table)) map[string]bool {
	known := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, empty := range []*node{newTable(place{}), {kind: arrayKind, items: []*node{newTable(place{})}}} {
			found := map[string]bool{}
			r := &reader{partial: true, inSpec: true, asked: func(path string) { found[path] = true }}
			read(r.root(withKeys(known, empty)))
			for path := range found {
				grown = grown || !known[path]
				known[path] = true
			}
		}
	}
	return known
}

// withKeys returns a table with all these paths, in which the last ones are empty.
func withKeys(paths map[string]bool, empty *node) *node {
	root := newTable(place{})
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		at := root
		words := strings.Split(path, ".")
		for i, word := range words {
			key := element.ReplaceAllString(word, "")
			last := i == len(words)-1
			switch {
			case at.fields[key] == nil && last:
				at.fields[key] = empty
			case at.fields[key] == nil || at.fields[key] == empty && !last:
				at.fields[key] = newTable(place{})
				if key != word {
					at.fields[key] = &node{kind: arrayKind, items: []*node{newTable(place{})}}
				}
			}
			if at = at.fields[key]; at.kind == arrayKind {
				at = at.items[0]
			}
		}
	}
	return root
}

// daemonKeys returns the keys of the sections, by section.
func daemonKeys(t *testing.T) map[string]map[string]bool {
	t.Helper()
	read := map[string]func(*table){
		"runtime": func(t *table) { readRuntime(t) }, "listen": func(t *table) { readListen(t) }, "state": func(t *table) { readState(t) },
		"daemon": func(t *table) { readDaemonSection(t) }, "log": func(t *table) { readLog(t) }, "guard": func(t *table) { readGuard(t) },
		"haproxy": func(t *table) { readHAProxy(t, "127.0.0.1:1") }, "labels": func(t *table) { readLabelRules(t) },
		"traefik": func(t *table) { readOutletDrain(t, 0) }, "dns": func(t *table) { readOutletDrain(t, 0) },
	}
	all := map[string]map[string]bool{}
	for section, read := range read {
		all[section] = keysOf(read)
	}
	all["runtime"]["namespaces"] = true // of another type
	for _, section := range sectionKeys() {
		if section != "defaults" && section != fleetSection && all[section] == nil {
			t.Errorf("[%s] is not in this test", section)
		}
	}
	return all
}

func readReference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The page has all keys of the daemon, in their sections, and no others. Their values there are the defaults.
func TestDocumentedDaemonKeys(t *testing.T) {
	block := daemonPart.FindStringSubmatch(readReference(t))[1]
	documented, section := map[string]map[string]bool{}, ""
	for line := range strings.Lines(block) {
		if key := keyLine.FindStringSubmatch(line); key != nil {
			documented[section][key[1]] = true
		} else if line[0] == '[' {
			section = strings.Trim(strings.Fields(line)[0], "[]")
			documented[section] = map[string]bool{}
		}
	}
	if want := daemonKeys(t); !reflect.DeepEqual(documented, want) {
		t.Errorf("%s has\n%v, but the keys are\n%v", reference, documented, want)
	}
	block = regexp.MustCompile(`(?m)^(sockets|endpoint) .*\n`).ReplaceAllString(block, "")
	got, want := mustParse(t, block), mustParse(t, "")
	for _, pair := range [][2]any{
		{got.Runtimes, want.Runtimes}, {got.State, want.State}, {got.Daemon, want.Daemon}, {got.Log, want.Log}, {got.Guard, want.Guard},
		{got.HAProxy, want.HAProxy}, {got.Observe, want.Observe}, {got.Listen.HTTP, want.Listen.HTTP}, {got.Listen.Agent, want.Listen.Agent}, {got.Listen.DNS, want.Listen.DNS},
		{got.Listen.Control, want.Listen.Control}, {got.Listen.ControlGroup, want.Listen.ControlGroup}, {len(got.Listen.Hosts), 0},
		{len(got.labels.groups), 0}, {got.labels.allow, want.labels.allow}, {got.labels.services, want.labels.services},
		{got.labels.backends, want.labels.backends}, {got.labels.maxTimeout, want.labels.maxTimeout},
		{got.labels.maxWait, want.labels.maxWait}, {got.labels.minBackoff, want.labels.minBackoff},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s has %+v as a default, it is %+v", reference, pair[0], pair[1])
		}
	}
}

// The page has every key of a spec, and its tables have no others.
func TestDocumentedSpecKeys(t *testing.T) {
	text := readReference(t)
	code := ""
	for _, block := range tomlBlock.FindAllStringSubmatch(text, -1) {
		code += block[1]
	}
	for _, span := range codeSpan.FindAllStringSubmatch(tomlBlock.ReplaceAllString(text, ""), -1) {
		code += " " + span[1] + " "
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(code, -1) {
		words[word] = true
	}
	keys := map[string]bool{}
	for path := range keysOf(func(t *table) { readSpecTable(t) }) {
		leaf := element.ReplaceAllString(path[strings.LastIndexByte(path, '.')+1:], "")
		if keys[leaf] = true; !words[leaf] {
			t.Errorf("%s does not have %s", reference, path)
		}
	}
	for _, key := range append(ownKeys(), probeKeys()...) {
		keys[key] = true
	}
	rows := 0
	others := slices.Concat(keyRows(notifyPart(t)), keyRows(filesPart(t)), keyRows(fleetPart(t, text)))
	for _, row := range keyRows(text) {
		if slices.Contains(others, row) {
			continue
		}
		for _, span := range codeSpan.FindAllStringSubmatch(row.key, -1) {
			if rows++; oneWord.MatchString(span[1]) && !keys[span[1]] {
				t.Errorf("%s has %s, which is no key of a spec", reference, span[1])
			}
		}
	}
	if len(keys) < 60 || rows < 40 {
		t.Errorf("found only %d keys in the code and %d in the page", len(keys), rows)
	}
}

// The defaults that the page names are those of the code.
func TestDocumentedDefaults(t *testing.T) {
	spec, err := mustParse(t, `
[[spec]]
name = "web"
match = { a = "b" }
[spec.readiness]
http_get = { port = 80, expect = { body = "x" } }
[spec.liveness]
http_get = { port = 80 }
[spec.recorder]
command = ["x"]
`).Resolve(runtime.Traits{Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]map[string]bool{}
	for _, v := range spec.Settings() {
		leaf := v.Path[strings.LastIndexByte(v.Path, '.')+1:]
		if defaults[leaf] == nil {
			defaults[leaf] = map[string]bool{}
		}
		defaults[leaf][v.Value] = v.Origin == originDefault
	}
	compared := 0
	others := slices.Concat(keyRows(notifyPart(t)), keyRows(filesPart(t)), keyRows(fleetPart(t, readReference(t))))
	for _, row := range keyRows(readReference(t)) {
		if slices.Contains(others, row) {
			continue
		}
		spans := codeSpan.FindAllStringSubmatch(row.key, -1)
		named := literal.FindStringSubmatch(row.byDefault)
		if named == nil || len(spans) == 0 {
			continue
		}
		key, value := spans[len(spans)-1][1], named[1]+named[2]
		if all := defaults[key]; all != nil {
			if compared++; !all[value] {
				t.Errorf("%s says that %s is %s by default, it is %v", reference, key, value, all)
			}
		}
	}
	if compared < 12 {
		t.Errorf("compared only %d defaults", compared)
	}
}

// keyRow is a row of a table of keys.
type keyRow struct{ key, byDefault string }

// keyRows returns the rows of all tables of keys.
func keyRows(text string) []keyRow {
	var rows []keyRow
	byDefault, in := 0, false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			in = false
		case strings.HasPrefix(line, "| key |"):
			in, byDefault = true, slices.Index(cells, "default")
		case in && !strings.HasPrefix(line, "|--"):
			row := keyRow{key: strings.TrimPrefix(cells[0], "| ")}
			if byDefault > 0 {
				row.byDefault = cells[byDefault]
			}
			rows = append(rows, row)
		}
	}
	return rows
}
