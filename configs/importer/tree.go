package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// File is a file that was read.
type File struct {
	Name string // as messages call it
	Data []byte
}

// value is a value of a YAML or JSON file that knows where it is. Its zero value is one that is not there: what is
// below it is not there either.
type value struct {
	file string
	node *yaml.Node
}

const (
	maxDocuments = 10_000
	maxAliases   = 10 // that lead from one to the next
	maxItems     = 5000

	// MaxExpanded bounds a document, in bytes, when each alias is what it stands for.
	MaxExpanded = 16 << 20
)

// readYAML returns the documents of a file.
func readYAML(f File) ([]value, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(f.Data))
	var all []value
	for {
		node := &yaml.Node{}
		err := decoder.Decode(node)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, yamlError(f.Name, err)
		}
		if len(all) == maxDocuments {
			return nil, fmt.Errorf("%s: has more than %d documents", f.Name, maxDocuments)
		}
		if err := boundYAML(f.Name, node); err != nil {
			return nil, err
		}
		if err := boundAliases(f.Name, node); err != nil {
			return nil, err
		}
		if v := (value{f.Name, node}); v.resolved() != nil && v.resolved().Tag != "!!null" {
			all = append(all, v)
		}
	}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(.*?)(?: at)? ?line (\d+)(?:, column \d+)?: (.*)$`)

// yamlError begins with FILE:LINE where the library tells the line.
func yamlError(file string, err error) error {
	if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("%s:%s: %s", file, found[2], found[3])
	}
	return fmt.Errorf("%s: %w", file, err)
}

// resolved returns the node that the value is, behind documents and aliases.
func (v value) resolved() *yaml.Node {
	n := v.node
	for range maxAliases {
		switch {
		case n == nil:
			return nil
		case n.Kind == yaml.DocumentNode && len(n.Content) > 0:
			n = n.Content[0]
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		default:
			return n
		}
	}
	return nil
}

func (v value) is(kind yaml.Kind) bool {
	n := v.resolved()
	return n != nil && n.Kind == kind
}

// there says whether the value is there and not null.
func (v value) there() bool {
	n := v.resolved()
	return n != nil && n.Tag != "!!null"
}

// at is where the value is.
func (v value) at() string {
	n := v.node
	if n != nil && n.Kind == yaml.DocumentNode {
		n = v.resolved()
	}
	if n == nil {
		return v.file
	}
	return v.file + ":" + strconv.Itoa(n.Line)
}

// get returns the value at a path of keys.
func (v value) get(path ...string) value {
	for _, key := range path {
		v = v.field(key, maxAliases)
	}
	return v
}

// field returns the value of a key, also of one that is merged into the table (<<).
func (v value) field(key string, depth int) value {
	n := v.resolved()
	if n == nil || n.Kind != yaml.MappingNode || depth == 0 {
		return value{file: v.file}
	}
	var merged value
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Value == key && k.Kind == yaml.ScalarNode:
			return value{v.file, n.Content[i+1]}
		case k.Tag == "!!merge":
			for _, from := range (value{v.file, n.Content[i+1]}).each() {
				if m := from.field(key, depth-1); m.node != nil && merged.node == nil {
					merged = m
				}
			}
		}
	}
	if merged.node == nil {
		merged.file = v.file
	}
	return merged
}

// each returns the elements of a list, or the value itself if it is none.
func (v value) each() []value {
	if v.is(yaml.SequenceNode) {
		return v.items()
	}
	return []value{v}
}

// items returns the elements of a list.
func (v value) items() []value {
	n := v.resolved()
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var all []value
	for _, item := range n.Content {
		all = append(all, value{v.file, item})
	}
	return all
}

// field of a table with its key.
type entry struct {
	key string
	value
}

// entries returns what a table has, in its order, and then what is merged into it (<<).
func (v value) entries() []entry { return v.entriesBut(map[string]bool{}, maxAliases) }

// entriesBut returns the entries that are not known yet.
func (v value) entriesBut(known map[string]bool, depth int) []entry {
	n := v.resolved()
	if n == nil || n.Kind != yaml.MappingNode || depth == 0 {
		return nil
	}
	var all []entry
	var merged []value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, is := n.Content[i], value{v.file, n.Content[i+1]}
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, is.each()...)
		case !known[key.Value]:
			known[key.Value] = true
			all = append(all, entry{key.Value, is})
		}
	}
	for _, from := range merged {
		all = append(all, from.entriesBut(known, depth-1)...)
	}
	return all
}

// text returns a scalar as it is written, "" for what is none.
func (v value) text() string {
	n := v.resolved()
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// integer returns a whole number.
func (v value) integer() (int, bool) {
	n := v.resolved()
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!str" {
		return 0, false
	}
	if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil { // 010 is 8, as for Kubernetes
		return int(whole), whole >= math.MinInt32 && whole <= math.MaxInt32
	}
	number, err := strconv.ParseFloat(n.Value, 64) // JSON has 1e1, too
	if err != nil || number != math.Trunc(number) || math.Abs(number) > math.MaxInt32 {
		return 0, false
	}
	return int(number), true
}

// texts returns a list of strings, and whether it is one.
func (v value) texts() ([]string, bool) {
	var all []string
	for _, item := range v.items() {
		if !item.is(yaml.ScalarNode) {
			return nil, false
		}
		all = append(all, item.text())
	}
	return all, v.is(yaml.SequenceNode)
}

// table returns a table of strings.
func (v value) table() map[string]string {
	all := map[string]string{}
	for _, e := range v.entries() {
		all[e.key] = e.text()
	}
	return all
}
