package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// loseEngine reports that the connection to the engine is lost.
func loseEngine(h *harness) {
	h.t.Helper()
	h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
	h.must(h.Ping(h.t.Context()))
}

// A container of another image is a new container of the same identity. It gets the same
// spec and starts afresh; healthd does not make its first start.
func TestChangedImageIsANewContainer(t *testing.T) {
	t.Attr("kubelet", "208")
	play(t, webSpec(), func(h *harness) {
		h.create(runtime.Container{ID: "c1", Name: "web", ImageID: "sha256:1"})
		h.create(runtime.Container{ID: "other", Name: "other", ImageID: "sha256:1"})
		h.engine.run("other")
		h.crash("c1", 4)
		old, other := h.view("web"), h.view("other").State.Run.ID
		h.remove("c1")
		h.create(runtime.Container{ID: "c2", Name: "web", ImageID: "sha256:2"})
		pass(time.Minute)
		calls := len(h.engine.calls())
		if v := h.view("web"); v.Container.ID != "c2" || v.State.Engine.State != runtime.Created || calls != 3 {
			h.t.Fatalf("the new container is %s %s, %d calls", v.Container.ID, v.State.Engine.State, calls)
		}
		h.engine.run("c2")
		synctest.Wait()
		now := h.view("web")
		if now.Spec != old.Spec || now.Identity != old.Identity || now.State.Lasting.Backoff.Active || !now.State.Conditions.Ready.Status || now.State.Run.LastExit != (core.Exit{}) {
			h.t.Errorf("the new container: %+v", now.State)
		}
		h.engine.exit("c2", 1)
		synctest.Wait()
		if v := h.view("web"); v.State.Engine.State != runtime.Running || len(h.engine.calls()) != calls+1 {
			h.t.Errorf("not started at once after its first end: %+v", v.State)
		}
		if run := h.view("other").State.Run.ID; run != other {
			h.t.Error("the other container was touched")
		}
	})
}

// The restart count belongs to the identity: it goes on when the container is re-
// created.
func TestRestartCountBelongsToTheIdentity(t *testing.T) {
	numbered := func(number string) map[string]string {
		return map[string]string{core.ComposeProject: "p", core.ComposeService: "web", core.ComposeNumber: number}
	}
	web := func(id string) runtime.Container { return runtime.Container{ID: id, Name: "web", ImageID: "1"} }
	crash := func(id string, times int) func(*harness) {
		return func(h *harness) {
			h.crash(id, times)
			time.Sleep(2 * time.Minute) // healthd starts it after the last crash, too
		}
	}
	runs := func(id string) func(*harness) { return func(h *harness) { h.engine.run(id) } }
	made := func(c runtime.Container) func(*harness) { return func(h *harness) { h.create(c) } }
	gone := func(id string) func(*harness) { return func(h *harness) { h.remove(id) } }
	asleep := func(d time.Duration) func(*harness) { return func(*harness) { time.Sleep(d) } }
	for _, tt := range []struct {
		name  string
		steps []func(*harness)
		id    string // the container whose count is checked
		want  int
	}{
		{"never restarted", []func(*harness){made(web("c1")), runs("c1")}, "c1", 0},
		{"not started yet", []func(*harness){made(web("c1"))}, "c1", 0},
		{"once", []func(*harness){made(web("c1")), crash("c1", 1)}, "c1", 1},
		{"three times", []func(*harness){made(web("c1")), crash("c1", 3)}, "c1", 3},
		{"re-created", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(web("c2")), runs("c2")}, "c2", 3},
		{"re-created, and goes on", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(web("c2")), crash("c2", 4)}, "c2", 7},
		{"re-created twice", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(web("c2")), runs("c2"), gone("c2"), made(web("c3")), runs("c3")}, "c3", 3},
		{"re-created, and removed before it ran", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(web("c2")), gone("c2"), made(web("c3")), runs("c3")}, "c3", 3},
		{"re-created before the old one is removed", []func(*harness){made(web("c1")), crash("c1", 3), made(web("c2")), gone("c1"), runs("c2")}, "c2", 3},
		{"of another image", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(runtime.Container{ID: "c2", Name: "web", ImageID: "2"}), runs("c2")}, "c2", 3},
		{"of the same service and number under another name", []func(*harness){
			made(runtime.Container{ID: "c1", Name: "x_web", Labels: numbered("1")}), crash("c1", 3), gone("c1"),
			made(runtime.Container{ID: "c2", Name: "web", Labels: numbered("1")}), runs("c2")}, "c2", 3},
		{"another name", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), made(runtime.Container{ID: "c2", Name: "db"}), runs("c2")}, "c2", 0},
		{"another number of the service", []func(*harness){
			made(runtime.Container{ID: "c1", Name: "x_web", Labels: numbered("1")}), crash("c1", 3), gone("c1"),
			made(runtime.Container{ID: "c2", Name: "web", Labels: numbered("2")}), runs("c2")}, "c2", 0},
		{"remembered for too long", []func(*harness){made(web("c1")), crash("c1", 3), gone("c1"), asleep(forgetAfter + time.Second), made(web("c2")), runs("c2")}, "c2", 0},
		{"an operator's stop and start do not count", []func(*harness){made(web("c1")), crash("c1", 1), func(h *harness) {
			h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()})
			h.engine.exit("c1", 143)
			h.engine.run("c1")
		}}, "c1", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "227")
			play(t, webSpec(), func(h *harness) {
				for _, step := range tt.steps {
					step(h)
					synctest.Wait()
				}
				if s := h.view(tt.id).State; s.RestartCount() != tt.want || s.Lasting.Restarts[core.ByExit] != tt.want {
					h.t.Errorf("restarts %v, want %d", s.Lasting.Restarts, tt.want)
				}
			})
		})
	}
}

func TestOldIdentitiesAreForgotten(t *testing.T) {
	t.Attr("kubelet", "176")
	play(t, &core.Spec{RestartPolicy: core.Never}, func(h *harness) {
		come := func(id string) {
			h.engine.run(id)
			h.remove(id)
		}
		const old = pruneMemories / 2
		for i := range old {
			come(fmt.Sprintf("old-%d", i))
		}
		synctest.Wait()
		time.Sleep(forgetAfter + time.Second)
		for i := range pruneMemories - old - 1 {
			come(fmt.Sprintf("young-%d", i))
		}
		if n := h.removedIdentities(); n != pruneMemories-1 {
			h.t.Fatalf("%d memories before clearing, want %d", n, pruneMemories-1)
		}
		come("last")
		if n := h.removedIdentities(); n != pruneMemories-old {
			h.t.Errorf("%d memories, want the %d young ones", n, pruneMemories-old)
		}
	})
}

func TestIdentityIsForgottenAfterAnHour(t *testing.T) {
	for _, tt := range []struct {
		name string
		away time.Duration
		want time.Duration
	}{
		{"young", forgetAfter - time.Second, time.Second},
		{"old", forgetAfter + time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "176")
			play(t, webSpec(), func(h *harness) {
				h.create(runtime.Container{ID: "c1", Name: "web"})
				h.crash("c1", 2)
				h.remove("c1")
				time.Sleep(tt.away)
				h.create(runtime.Container{ID: "c2", Name: "web"})
				h.engine.run("c2")
				if d := h.view("c2").State.Lasting.Backoff.Delay; d != tt.want {
					h.t.Errorf("back-off %v, want %v", d, tt.want)
				}
			})
		})
	}
}

// A container with invalid labels neither inherits nor drops what is remembered of its
// identity.
func TestInvalidContainerDoesNotInherit(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.create(runtime.Container{ID: "c1", Name: "web"})
		h.crash("c1", 2)
		h.remove("c1")
		h.create(runtime.Container{ID: "c2", Name: "web", Labels: map[string]string{"wrong": "period"}})
		h.engine.run("c2")
		h.remove("c2")
		h.create(runtime.Container{ID: "c3", Name: "web"})
		h.engine.run("c3")
		if s := h.view("c3").State; s.Lasting.Backoff.Delay == 0 || s.RestartCount() == 0 {
			h.t.Errorf("back-off %v and %d restarts, want those of c1", s.Lasting.Backoff.Delay, s.RestartCount())
		}
	})
}

// Back-off belongs to the identity, as long as image and resources stay the same.
func TestBackoffBelongsToIdentityImageAndResources(t *testing.T) {
	label := func(key, value string) func(*runtime.Container) {
		return func(c *runtime.Container) { c.Labels[key] = value }
	}
	for _, tt := range []struct {
		name    string
		compose bool
		change  func(*runtime.Container)
		kept    bool
	}{
		{"nothing changed", false, func(*runtime.Container) {}, true},
		{"an unrelated label changed", true, label("maintainer", "me"), true},
		{"an unrelated variable changed", true, func(c *runtime.Container) { c.Env = []string{"A=1"} }, true},
		{"another name", false, func(c *runtime.Container) { c.Name = "other" }, false},
		{"another number of the service", true, label(core.ComposeNumber, "2"), false},
		{"another service", true, label(core.ComposeService, "db"), false},
		{"another project", true, label(core.ComposeProject, "q"), false},
		{"another image", true, func(c *runtime.Container) { c.Image, c.ImageID = "web:2", "sha256:2" }, false},
		{"another image of the same name", true, func(c *runtime.Container) { c.ImageID = "sha256:2" }, false},
		{"an image without an ID", true, func(c *runtime.Container) { c.Image, c.ImageID = "web:2", "" }, false},
		{"other resources", true, func(c *runtime.Container) { c.Resources += "memory=2g" }, false},
	} {
		for _, of := range []struct{ image, resources string }{{"sha256:1", ""}, {"sha256:1", "memory=1g "}, {"", ""}} {
			t.Run(strings.TrimSpace(tt.name+" "+of.image+" "+of.resources), func(t *testing.T) {
				t.Attr("kubelet", "184")
				old := runtime.Container{
					ID: "c1", Name: "web", Image: "web:1", ImageID: of.image, Resources: of.resources, Labels: map[string]string{"maintainer": "you"},
				}
				if tt.compose {
					old.Labels = map[string]string{core.ComposeProject: "p", core.ComposeService: "web", core.ComposeNumber: "1", "maintainer": "you"}
				}
				if got := backoffSurvives(t, old, tt.change); got != tt.kept {
					t.Errorf("the back-off is kept: %v, want %v", got, tt.kept)
				}
			})
		}
	}
}

// backoffSurvives says whether a container inherits the back-off of the one it replaces.
func backoffSurvives(t *testing.T, old runtime.Container, change func(*runtime.Container)) (kept bool) {
	play(t, webSpec(), func(h *harness) {
		h.create(old)
		h.crash("c1", 3)
		before := h.view("c1").State.Lasting.Backoff
		if before.Delay != 2*time.Second {
			h.t.Fatalf("back-off %+v after three crashes, want 2 s", before)
		}
		next := old
		next.ID, next.Labels = "c2", make(map[string]string)
		for key, value := range old.Labels {
			next.Labels[key] = value
		}
		change(&next)
		h.remove("c1")
		h.create(next)
		h.engine.run("c2")
		after := h.view("c2").State.Lasting.Backoff
		kept = after == before
		if !kept && after.Active {
			h.t.Errorf("back-off %+v, want none or %+v", after, before)
		}
	})
	return kept
}
