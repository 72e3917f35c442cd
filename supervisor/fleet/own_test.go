package fleet

import (
	"fmt"
	"slices"
	"testing"
)

func TestWhatDiffers(t *testing.T) {
	const lease = 7
	name := func(c string) string {
		return key{kind: memberKey, service: "web", host: "h0", container: c}.String()
	}
	member := func(c, state string) string {
		text, _ := memberRecord([]string{"h0", c, state})
		return string(text)
	}
	wants := map[string]string{name("a"): bodyOf(member("a", stateReady)), name("b"): bodyOf(member("b", stateReady))}
	at := func(c, state string, rev int64) record {
		return record{name: name(c), value: []byte(member(c, state)), lease: lease, rev: rev}
	}
	for _, row := range []struct {
		what          string
		play          func(o *ownKeys)
		all           bool
		puts, deletes []string
	}{
		{"nothing is known", func(*ownKeys) {}, true, []string{"a", "b"}, nil},
		{"all was written", func(o *ownKeys) {
			o.wrote(name("a"), member("a", stateReady), lease, 5)
			o.wrote(name("b"), withRevision(wants[name("b")], 99), lease, 5)
		}, true, nil, nil},
		{"under another lease", func(o *ownKeys) {
			o.wrote(name("a"), member("a", stateReady), 6, 5)
			o.wrote(name("b"), member("b", stateReady), lease, 5)
		}, true, []string{"a"}, nil},
		{"another daemon's leftovers", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), at("b", stateDown, 3), at("c", stateReady, 3)}, 5, false)
		}, true, []string{"b"}, []string{"c"}},
		{"while not all containers are known", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), at("b", stateReady, 3), at("c", stateReady, 3)}, 5, false)
		}, false, nil, nil},
		{"somebody has deleted it", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), at("b", stateReady, 3)}, 5, false)
			o.saw(&record{name: name("a"), rev: 6, deleted: true})
		}, true, []string{"a"}, nil},
		{"the old lease has ended after all was written anew", func(o *ownKeys) {
			o.wrote(name("a"), member("a", stateReady), lease, 9)
			o.wrote(name("b"), member("b", stateReady), lease, 9)
			o.saw(&record{name: name("a"), rev: 8, deleted: true})
		}, true, nil, nil},
		{"the watch is late with what was deleted since", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), at("b", stateReady, 3), at("c", stateReady, 3)}, 5, false)
			o.deleted(name("c"), 9)
			c := at("c", stateDown, 7)
			o.saw(&c)
		}, true, nil, nil},
		{"a list is older than what was written", func(o *ownKeys) {
			o.wrote(name("a"), member("a", stateReady), lease, 9)
			o.listed([]record{at("b", stateReady, 3)}, 8, false)
		}, true, nil, nil},
		{"the store went back", func(o *ownKeys) {
			o.wrote(name("a"), member("a", stateReady), lease, 9)
			o.listed([]record{at("b", stateReady, 3)}, 8, true)
		}, true, []string{"a"}, nil},
		{"a foreign value", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), {name: name("b"), value: []byte("x"), rev: 3}, {name: name("c"), value: []byte("x"), rev: 3}}, 5, false)
		}, true, []string{"b"}, nil},
		{"nobody knows whether it was written", func(o *ownKeys) {
			o.listed([]record{at("a", stateReady, 3), at("b", stateReady, 3)}, 5, false)
			o.unknown([]string{name("a")})
		}, true, []string{"a"}, nil},
	} {
		o := &ownKeys{keys: map[string]ownKey{}}
		row.play(o)
		puts, deletes := o.diff(wants, lease, func(string) bool { return row.all })
		if got, want := fmt.Sprint(plain(puts), plain(deletes)), fmt.Sprint(row.puts, row.deletes); got != want {
			t.Errorf("%s: put and deleted are %s, want %s", row.what, got, want)
		}
	}
}

func plain(names []string) []string {
	var all []string
	for _, name := range names {
		k, _ := parseKey(name)
		all = append(all, k.container)
	}
	return slices.Clip(all)
}
