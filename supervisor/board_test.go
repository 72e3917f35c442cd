package supervisor

import (
	"testing"
	"testing/synctest"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Two runtimes may each have a container of the same name.
func TestNameSharedByTwoContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, webSpec())
		defer h.close(t)
		h.sendSynced()
		h.engine.names["c1"], h.engine.names["c2"] = "web", "web"
		h.engine.run("c1")
		h.engine.run("c2")
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c2"})
		synctest.Wait()
		if v := h.view(t, "web"); v.Container.ID != "c1" {
			t.Errorf("web is %s, want c1", v.Container.ID)
		}
	})
}

func TestFindByPrefix(t *testing.T) {
	view := func(id, name string) *core.View { return &core.View{Container: &runtime.Container{ID: id, Name: name}} }
	b := NewBoard(nil, view("db12ef00", "web"), view("db12ab00", "api"), view("cafe0000", "db12a"))
	for name, want := range map[string]string{
		"web": "db12ef00", "db12e": "db12ef00", "db12": "", "db1": "", "cafe": "cafe0000", "db12a": "cafe0000", "DB12E": "", "": "",
	} {
		v, ok := b.Find(name)
		if ok != (want != "") || ok && v.Container.ID != want {
			t.Errorf("Find(%q) = %v, %v, want %q", name, v, ok, want)
		}
	}
}
