package docker

import (
	"reflect"
	"strings"
	"testing"
)

// What a list says of a container that was inspected is not kept twice, unless it is something else.
func TestListSharesWhatIsKnown(t *testing.T) {
	const list = `[{"Id":"a","State":"running","Labels":{"x":"1"}},{"Id":"b","State":"running","Labels":{"x":"2"}},{"Id":"c","State":"running"}]`
	var known knownLabels
	a := known.keep("a", map[string]string{"x": "1"})
	known.keep("b", map[string]string{"x": "other"})
	known.keep("gone", nil)
	known.keep("gone, too", nil)
	all, err := readList(strings.NewReader(list), &known)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.ValueOf(all[0].Labels).Pointer() != reflect.ValueOf(a).Pointer() {
		t.Error("the labels of a are kept twice")
	}
	if all[1].Labels["x"] != "2" {
		t.Errorf("b has the labels %v", all[1].Labels)
	}
	known.prune(all)
	if len(known.byID) != 2 || known.byID["a"].id != "a" || known.byID["b"].id != "b" {
		t.Errorf("after the list %v are known", known.byID)
	}
}
