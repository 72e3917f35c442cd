package supervisor

import (
	"fmt"
	"testing"
	"testing/synctest"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Compose gives a new container the name of the one that it is about to remove.
func TestNameSharedByTwoContainers(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.names["c1"], h.engine.names["c2"] = "web", "web"
		h.engine.run("c1")
		h.engine.run("c2")
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c2"})
		synctest.Wait()
		if v := h.view("web"); v.Container.ID != "c1" {
			h.t.Errorf("web is %s, want c1", v.Container.ID)
		}
	})
}

// Whoever of several containers goes, the name stays with the newest of the others.
func TestNameSharedByThreeContainers(t *testing.T) {
	for _, tt := range []struct {
		gone []int // in this order
		want string
	}{
		{nil, "c"}, {[]int{2}, "b"}, {[]int{0}, "c"}, {[]int{1}, "c"}, {[]int{2, 1}, "a"}, {[]int{2, 0}, "b"},
		{[]int{0, 2}, "b"}, {[]int{0, 1}, "c"}, {[]int{1, 2}, "a"}, {[]int{0, 1, 2}, ""}, {[]int{2, 1, 0}, ""},
	} {
		b, all := &Board{}, make([]*slot, 3)
		for i, id := range []string{"a", "b", "c"} {
			all[i] = &slot{}
			b.put(all[i], &core.View{Container: &runtime.Container{ID: id, Name: "web"}, State: core.NewState()})
		}
		for _, i := range tt.gone {
			b.remove(all[i])
		}
		got := ""
		if v, err := b.Find("web"); err == nil {
			got = v.Container.ID
		}
		if got != tt.want {
			t.Errorf("without %v: web is %q, want %q", tt.gone, got, tt.want)
		}
	}
}

// BenchmarkRemove measures the end of a container, among others and after two of them had
// the same name. It should cost the same with 100 and 10,000.
func BenchmarkRemove(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			board := &Board{}
			for i := range n {
				board.put(&slot{}, &core.View{Container: &runtime.Container{ID: fmt.Sprint(i), Name: fmt.Sprint(i)}, State: core.NewState()})
			}
			board.put(&slot{}, &core.View{Container: &runtime.Container{ID: "shares", Name: "1"}, State: core.NewState()})
			v, s := &core.View{Container: &runtime.Container{ID: "short", Name: "short"}, State: core.NewState()}, &slot{}
			for b.Loop() {
				s.view.Store(nil)
				board.put(s, v)
				board.remove(s)
			}
		})
	}
}

func TestFindByPrefix(t *testing.T) {
	view := func(id, name string) *core.View {
		return &core.View{Container: &runtime.Container{ID: id, Name: name}, State: core.NewState()}
	}
	b := NewBoard(nil, view("db12ef00", "web"), view("db12ab00", "api"), view("cafe0000", "db12a"))
	for name, want := range map[string]string{
		"web": "db12ef00", "db12e": "db12ef00", "db12": "", "db1": "", "cafe": "cafe0000", "db12a": "cafe0000", "DB12E": "", "": "",
	} {
		v, err := b.Find(name)
		if (err == nil) != (want != "") || err == nil && v.Container.ID != want {
			t.Errorf("Find(%q) = %v, %v, want %q", name, v, err, want)
		}
	}
}
