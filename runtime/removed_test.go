package runtime

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever remembers a container from the daemon before hears that it is gone, also if nobody could look at
// it meanwhile. Of one that nobody remembers there is nothing to tell.
func TestRemovedBeforeItsFirstInspection(t *testing.T) {
	for _, tt := range []struct{ name, known, want string }{
		{"known to the daemon before", "a", `
			0s connected unknown
			0s synced start but for 1
			1s removed a`},
		{"known to nobody", "", `
			0s connected unknown
			0s synced start but for 1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.silently(func() {
					f.run("a")
					f.inspectErr["a"] = errors.New("sick")
				})
				run := f.containers["a"].Run()
				known := func(id string) (Run, bool) {
					if id != tt.known {
						return Run{}, false
					}
					return run, true
				}
				got := record(t, &Watcher{Name: "fake", Source: f, KnownRun: known}, func(f *fakeEngine) {
					time.Sleep(time.Second)
					f.remove("a")
					time.Sleep(time.Second)
				})
				compare(t, got, tt.want)
			})
		})
	}
}
