package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container that is removed at once, as by docker rm -f or a deploy, is gone before it can be
// inspected: the history tells its end all the same, once.
func TestEndOfARemovedContainerIsTold(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps func(*harness)
		want  core.Event // its last event
		count int        // of this reason
	}{
		{"stopped by an operator", func(h *harness) {
			h.event(runtime.Killed, "web", 9)
			h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "web", ExitCode: 137})
			h.reportRemoved("web")
		}, core.Event{Reason: core.EventOperatorStopped, Message: "Container n-web was stopped by an operator (exit code 137) and removed"}, 1},
		{"ended by itself", func(h *harness) {
			h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "web", ExitCode: 3})
			h.reportRemoved("web")
		}, core.Event{Reason: core.EventExited, Message: "Container n-web has ended (exit code 3) and was removed"}, 1},
		{"gone unseen", func(h *harness) { h.reportRemoved("web") },
			core.Event{Reason: core.EventExited, Message: "Container n-web has ended and was removed"}, 1},
		{"inspected before", func(h *harness) {
			h.event(runtime.Killed, "web", 15)
			h.engine.exit("web", 143)
			synctest.Wait()
			h.reportRemoved("web")
		}, core.Event{Reason: core.EventOperatorStopped, Message: "Container n-web was stopped by an operator (exit code 143). It stays stopped until somebody starts it"}, 1},
		{"removed before it is started again", func(h *harness) {
			h.engine.exit("web", 1)
			synctest.Wait()
			h.engine.exit("web", 1) // the second end has a back-off
			synctest.Wait()
			h.reportRemoved("web")
		}, core.Event{Reason: core.EventExited, Message: "Container n-web was removed, not recovered: healthd was to start it again"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, webSpec(), func(h *harness) {
				h.engine.run("web")
				synctest.Wait()
				tt.steps(h)
				synctest.Wait()
				reasons := slices.DeleteFunc(h.journal.reasons("n-web"), func(r string) bool { return r != tt.want.Reason })
				last := core.Event{}
				for _, e := range h.journal.all() {
					if e.Reason == tt.want.Reason {
						last = e
					}
				}
				if len(reasons) != tt.count || last.Message != tt.want.Message {
					h.t.Errorf("the history says %q %d times, want %q %d times", last.Message, len(reasons), tt.want.Message, tt.count)
				}
			})
		})
	}
}

// A container that a reload has dropped is removed, before its watcher knows that no spec matches it or
// after that. Only its identity is remembered, as of others.
func TestRemovedAfterAReloadDroppedIt(t *testing.T) {
	for name, unwanted := range map[string]bool{"before its watcher knew": false, "after that": true} {
		t.Run(name, func(t *testing.T) {
			play(t, webSpec(), func(h *harness) {
				h.engine.run("web")
				synctest.Wait()
				h.reload(nil)
				if unwanted {
					h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "web", Unwanted: true})
				}
				h.reportRemoved("web")
				left := make(chan int, 4)
				if err := h.send(h.t.Context(), inspectLoop(func(l *loop) {
					for _, n := range []int{len(l.notSeenYet), len(l.unsupervised), len(l.dropped), len(l.removed)} {
						left <- n
					}
				})); err != nil {
					h.t.Fatal(err)
				}
				if got := []int{<-left, <-left, <-left, <-left}; !slices.Equal(got, []int{0, 0, 0, 1}) {
					h.t.Errorf("remembered are %v", got)
				}
			})
		})
	}
}
