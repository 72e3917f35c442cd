package importer

import (
	"bytes"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// boundYAML refuses a list or table that is longer than any that is meant. The library bounds the depth.
func boundYAML(file string, n *yaml.Node) error {
	most := maxItems
	if n.Kind == yaml.MappingNode {
		most *= 2 // keys and values
	}
	if len(n.Content) > most {
		return fmt.Errorf("%s:%d: has more than %d elements: import it in parts", file, n.Line, maxItems)
	}
	if err := twice(file, n); err != nil {
		return err
	}
	for _, below := range n.Content {
		if err := boundYAML(file, below); err != nil {
			return err
		}
	}
	return nil
}

// twice refuses a table that has a key twice, as kubectl does: nobody knows which one is meant.
func twice(file string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	at := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			continue
		}
		if first := at[k.Value]; first > 0 {
			return fmt.Errorf("%s:%d: has the key %s twice, also in line %d: remove one", file, k.Line, strconv.Quote(comment(k.Value)), first)
		}
		at[k.Value] = k.Line
	}
	return nil
}

// BoundAliases refuses a file of YAML that has very much when each alias is what it stands for, as a reader that writes
// them out needs memory for all of it. What is no YAML is for that reader to say.
func BoundAliases(f File) error {
	decoder := yaml.NewDecoder(bytes.NewReader(f.Data))
	for range maxDocuments {
		node := &yaml.Node{}
		if decoder.Decode(node) != nil {
			break
		}
		if err := boundAliases(f.Name, node); err != nil {
			return err
		}
	}
	return nil
}

func boundAliases(file string, n *yaml.Node) error {
	if expanded(n, map[*yaml.Node]int{}) > MaxExpanded {
		return fmt.Errorf("%s:%d: with its aliases it has more than %d MiB: split it", file, n.Line, MaxExpanded>>20)
	}
	return nil
}

// expanded returns how many bytes a node has when each alias is what it stands for, or MaxExpanded+1 for more. sizes are
// those that are known. A node that is in itself has more than any number.
func expanded(n *yaml.Node, sizes map[*yaml.Node]int) int {
	const more = MaxExpanded + 1
	if n == nil {
		return 0
	}
	if size, known := sizes[n]; known {
		return size
	}
	sizes[n] = more // for what is below it
	size := 1 + len(n.Value)
	if n.Kind == yaml.AliasNode {
		size = expanded(n.Alias, sizes)
	}
	for _, below := range n.Content {
		size = min(more, size+expanded(below, sizes))
	}
	sizes[n] = size
	return size
}
