package files

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// A container is withdrawn once all files of its service are without it and their reloads have ended. It is told once, and
// again each second while the drain has not begun.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.add("other", nil)
		s.add("blog", func(f *File) { f.Covers = func(name string) bool { return name == "blog/api" } })
		s.ready("a", "b")
		s.start()
		s.after(time.Minute)
		s.wantsWithdrawn()
		s.answers(func(context.Context, string) (string, error) { time.Sleep(300 * time.Millisecond); return "", nil })
		s.awaits("a")
		s.after(299 * time.Millisecond)
		s.wantsWithdrawn()
		s.after(time.Millisecond)
		s.wantsWithdrawn("1m0.3s a")
		s.after(2 * time.Second)
		s.wantsWithdrawn("1m1.3s a", "1m2.3s a")
		s.show("a", func(st *core.State) { isAwaiting(st); st.Action.Withdrawn = time.Now() })
		s.after(time.Minute)
		s.wantsWithdrawn()
		s.end()
	})
}

// While a file cannot be brought to where it should be, nothing is said of its services.
func TestNotWithdrawn(t *testing.T) {
	for name, tt := range map[string]struct {
		file  func(*File)
		fails string
	}{"reload": {reloaded, "reload"}, "check": {checked, "check"}, "candidate": {looked, "check"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, tt.file)
				s.ready("a", "b")
				s.start()
				s.after(time.Minute)
				s.fails(tt.fails)
				s.awaits("a")
				s.after(10 * time.Second)
				s.wantsWithdrawn()
				s.succeeds()
				s.after(time.Minute)
				s.mu.Lock()
				if len(s.withdrawn) < 2 {
					t.Errorf("told were %v", s.withdrawn)
				}
				s.mu.Unlock()
				s.end()
			})
		})
	}
}

// A drain does not go on waiting for a file that fails once it is out of the configuration.
func TestWithdrawnWhenFileIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.add("broken", reloaded)
		s.fails("reload")
		s.ready("a", "b")
		s.start()
		s.awaits("a")
		s.after(10 * time.Second)
		s.wantsWithdrawn()
		if err := s.now.Reload(t.Context(), s.files[:1]); err != nil {
			t.Fatal(err)
		}
		s.wantsWithdrawn("10s a")
		s.end()
	})
}

// Somebody who waits to be back does not hold up who is out already.
func TestWithdrawnWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.ready("a")
		s.out("c")
		s.start()
		s.after(100 * time.Millisecond)
		s.ready("b")
		s.awaits("c")
		s.wantsWithdrawn("100ms c")
		s.wants("shop/web: a;")
		s.end()
	})
}

// Nothing waits for the file of somebody who sends no requests.
func TestFileWithoutDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.add("scraped", func(f *File) { f.Drain, f.Reload = 0, []string{"reload"} })
		s.fails("reload")
		s.ready("a")
		s.start()
		s.after(time.Second)
		s.awaits("a")
		s.wantsWithdrawn("1s a")
		s.end()
	})
}

// A service that no file has is none of a Publisher's business.
func TestNoFileOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(f *File) { f.Covers = func(name string) bool { return name == "blog/api" } })
		s.start()
		s.awaits("a")
		s.after(time.Minute)
		s.wantsWithdrawn()
		s.end()
	})
}
