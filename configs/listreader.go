package configs

import "strconv"

// listReader reads an array of tables whose elements are told apart by one of their keys.
type listReader struct {
	section string
	most    int    // elements
	key     string // has another text in each
	twice   string // what is wrong with one that has not; %s is the place of the first
}

// read has each element read by a function that returns the text of its key; empty: that is missing or wrong, which is
// reported already.
func (l *listReader) read(nodes []*node, element func(t *table, number int) string) Problems {
	r := &reader{}
	places := map[string]place{}
	for i, n := range nodes {
		r.prefix = numbered(l.section, i+1)
		text := element(r.root(n), i+1)
		if first, twice := places[text]; twice && text != "" {
			r.wrong(n.fields[l.key], l.key, l.twice, first)
		}
		places[text] = n.at
	}
	if len(nodes) > l.most {
		r.prefix = ""
		r.wrong(nodes[l.most], l.section, "must be there at most %d times, is %d times", l.most, len(nodes))
	}
	return r.problems
}

// numbered is how problems call an element that has no name.
func numbered(section string, number int) string { return section + "[#" + strconv.Itoa(number) + "]." }
