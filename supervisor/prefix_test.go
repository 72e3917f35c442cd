package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// A name comes before a prefix of another container's ID. When the container of that name is gone, the
// prefix counts, as in Docker.
func TestNameThatIsAPrefix(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		const id = "abcd1234"
		h.create(runtime.Container{ID: "0123", Name: "abcd"})
		h.create(runtime.Container{ID: id, Name: "other"})
		synctest.Wait()
		hold := func(want string) {
			h.t.Helper()
			h.must(h.Hold(h.t.Context(), "abcd", time.Time{}))
			for _, name := range []string{"0123", id} {
				v, err := h.Board().Find("id:" + name)
				if err != nil {
					continue // it is gone
				}
				if held := v.State.Lasting.Held(); held != (name == want) {
					h.t.Errorf("%s is held: %v", name, held)
				}
			}
		}
		hold("0123")
		h.remove("0123")
		synctest.Wait()
		hold(id)
	})
}
