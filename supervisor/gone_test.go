package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A second engine that was never reached keeps no answer back about what the first one had, and has no more: this
// daemon has seen it, or its journal remembers it. All else may be the second one's.
func TestGoneWhileAnEngineIsMissing(t *testing.T) {
	remembered := func(name, engine string) *core.Memory {
		s := core.NewState()
		c := &runtime.Container{ID: name, Name: "n-" + name, Runtime: engine, State: runtime.Running, StartedAt: time.Now()}
		return &core.Memory{Facts: core.Remember(c, c.Name, &s)}
	}
	past := []*core.Memory{remembered("went", "docker"), remembered("there", "containerd"), remembered("kept", "docker")}
	playWith(t, webSpec(), func(c *Config) {
		c.Runtimes["containerd"], c.Memories = c.Runtimes["docker"], past
	}, func(h *harness) {
		check := func(when, want string) {
			h.t.Helper()
			synctest.Wait()
			var known []string
			for _, name := range []string{"a", "b", "kept", "went", "there", "new"} {
				if _, err := h.Board().Find("n-" + name); err == nil || h.Board().Knows("web/n-"+name) {
					known = append(known, name)
				}
			}
			if got := strings.Join(known, " "); got != want {
				h.t.Errorf("%s: no answer waits for %s, want %s", when, got, want)
			}
		}
		check("before any list", "")
		h.engine.run("a")
		h.engine.run("b")
		h.engine.run("kept")
		check("while the first list is taken in", "a b kept")
		h.sendSynced()
		check("with the first list", "a b kept went")
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "b"})
		check("after a removal", "a b kept went")
		for name, want := range map[string]bool{
			"a": false, "b": true, "docker:n-b": true, "went": true, "there": false, "new": false,
		} {
			if got := h.Board().Gone(name); got != want {
				h.t.Errorf("%s is gone: %v, want %v", name, got, want)
			}
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "containerd", Reason: runtime.RelistStart})
		check("with all lists", "a b kept went there new")
		if n := h.Board().gone.n; n != 0 || h.Board().Gone("b") {
			h.t.Errorf("%d names are still kept", n)
		}
	})
}

// A container that is about to be seen under the name of one that is gone is not taken for that one.
func TestGoneOfAnEngineThatIsMissing(t *testing.T) {
	b := NewBoard([]RuntimeView{{Name: "docker"}, {Name: "containerd", Synced: true}})
	b.noteGone("docker", "id-1", "web-1")
	if b.Gone("web-1") || b.Knows("web-1") {
		t.Error("the list that is missing may have a new web-1")
	}
	b.runtimes.set("docker", RuntimeView{Name: "docker", Synced: true})
	if !b.Knows("web-1") {
		t.Error("all lists are there")
	}
}

// Members of other hosts that went need no list of this host's engines.
func TestGoneFromAnotherHost(t *testing.T) {
	b := NewBoard([]RuntimeView{{Name: "docker"}})
	b.ExpectRemote()
	b.ShowRemote([]Member{{Host: "h2", Container: "web-1", ID: "h2/1", Service: "web"}}, nil)
	b.ShowRemote(nil, []string{"h2/1", "h2/none"})
	if b.Knows("web/h2:web-1") {
		t.Error("the list of the fleet may have it")
	}
	b.RemoteKnown()
	if !b.Knows("web/h2:web-1") || b.Knows("web/h2:web-2") {
		t.Error("web-1 went, and web-2 was never there")
	}
}

// However many went, not all are kept.
func TestGoneIsBounded(t *testing.T) {
	b := NewBoard([]RuntimeView{{Name: "docker", Synced: true}, {Name: "containerd"}})
	for i := range maxGone + 10 {
		b.noteGone("docker", fmt.Sprint(i))
	}
	if !b.Gone("0") || b.Gone(fmt.Sprint(maxGone)) || b.gone.n != maxGone {
		t.Errorf("%d are kept", b.gone.n)
	}
}
