package core

import (
	"strings"
	"testing"
	"time"
)

// An engine that does not say whether a container has survived its signal, and then
// tells of its end, leaves nothing that is due for ever.
func TestLookThatIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	w.silent, w.deaf = true, true
	for _, line := range []string{"0s runs", "60s signalled 15", "105s"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if w.state.Checks.InspectAt.IsZero() {
		t.Fatal("nobody has asked")
	}
	w.step("", &Input{Kind: Died})
	w.goTo(w.now.Add(time.Hour))
}
