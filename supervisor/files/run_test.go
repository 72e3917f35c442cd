package files

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor"
)

// Who is out is taken out at once. Who is back waits for its time.
func TestWithdrawalAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.ready("a", "b")
		s.start()
		s.wantsRun("0s reload shop/web: a b;")
		s.after(100 * time.Millisecond)
		s.out("a")
		s.wantsRun("100ms reload shop/web: b;")
		s.after(100 * time.Millisecond)
		s.ready("a")
		s.wantsRun()
		s.after(899 * time.Millisecond)
		s.wantsRun()
		s.after(time.Millisecond)
		s.wantsRun("1.1s reload shop/web: a b;")
		s.after(100 * time.Millisecond)
		s.ready("c") // waits, and goes with what cannot
		s.wantsRun()
		s.out("b")
		s.wantsRun("1.2s reload shop/web: a c;")
		s.after(time.Hour)
		s.wantsRun()
		s.wantsEvents()
		s.end()
		s.wants("shop/web: a c;")
		s.wantsClean("file")
	})
}

// A member that flaps ten times a second costs a write a second for its return, and one for each time it was in.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.ready("a", "b")
		s.start()
		for range 100 {
			s.after(50 * time.Millisecond)
			s.out("a")
			s.after(50 * time.Millisecond)
			s.ready("a")
		}
		s.after(time.Second)
		if writes, _ := s.metric("healthd_published_file_writes_total"); writes > 22 || writes < 18 {
			t.Errorf("%v writes within 11 s", writes)
		}
		s.wants("shop/web: a b;")
		s.end()
	})
}

// Withdrawals that come one after the other are written at once five times, and once in each interval after that.
func TestManyWithdrawals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		names := strings.Split("abcdefghijklmnopqrst", "")
		s.ready(names...)
		s.start()
		s.after(time.Minute)
		s.mu.Lock()
		s.ran = nil
		s.mu.Unlock()
		for _, name := range names {
			s.out(name)
			s.after(20 * time.Millisecond)
		}
		s.mu.Lock()
		if n := len(s.ran); n < maxHaste || n > maxHaste+1 {
			t.Errorf("%d reloads within 400 ms", n)
		}
		s.mu.Unlock()
		s.after(time.Second)
		s.wants("shop/web:;")
		s.end()
	})
}

// Until all engines have told of their containers, the file stays as it is.
func TestUntilSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}})
		if err := os.WriteFile(s.files[0].Path, []byte("as it was"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.ready("a")
		s.after(time.Hour)
		s.wants("as it was")
		s.wantsRun()
		s.end()
	})
}

// A reload that fails is told of once, and tried again with the newest content, after pauses up to a minute.
func TestReloadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.fails("reload")
		s.ready("a")
		s.start()
		s.after(20 * time.Second)
		s.wantsRun("0s reload shop/web: a;", "1s reload shop/web: a;", "3s reload shop/web: a;", "7s reload shop/web: a;", "15s reload shop/web: a;")
		s.wantsEvents("FileFailed: The reload for file failed: exit status 1: it is wrong: its reader goes on with what it has; healthd keeps trying")
		if up, _ := s.metric("healthd_published_file_up"); up != 0 {
			t.Error("the file is up")
		}
		if all := s.now.Problems(); len(all) != 1 || !strings.HasSuffix(all[0], "failed: exit status 1: it is wrong: its reader goes on with what it has; healthd keeps trying") {
			t.Errorf("problems %q", all)
		}
		s.ready("b")
		s.after(11 * time.Second)
		s.wantsRun("31s reload shop/web: a b;")
		s.out("a")
		s.wantsRun("31s reload shop/web: b;")
		s.after(time.Hour)
		s.mu.Lock()
		if n := len(s.ran); n < 58 || n > 61 {
			t.Errorf("%d reloads within an hour", n)
		}
		s.ran = nil
		s.mu.Unlock()
		s.succeeds()
		s.after(time.Minute)
		s.wantsEvents("FileBack: file is what it should be again")
		up, _ := s.metric("healthd_published_file_up")
		if reloads, _ := s.metric("healthd_published_file_reload_duration_seconds"); up != 1 || reloads != 1 {
			t.Errorf("up is %v, after %v good reloads", up, reloads)
		}
		if all := s.now.Problems(); len(all) > 0 {
			t.Errorf("problems %q", all)
		}
		s.end()
	})
}

// A reload that hangs is killed after its time. What changes meanwhile goes with the next one. Another file does not wait.
func TestReloadHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.add("other", nil)
		s.hangs("reload")
		s.ready("a", "b")
		s.start()
		s.after(5 * time.Second)
		s.out("a")
		s.wants("shop/web: a b;")
		if other, err := os.ReadFile(s.files[1].Path); err != nil || string(other) != "shop/web: b;" {
			t.Errorf("the other file has %q, %v", other, err)
		}
		s.after(5 * time.Second)
		s.wants("shop/web: b;")
		s.wantsRun("0s reload shop/web: a b;", "10s reload shop/web: b;")
		s.wantsEvents("FileFailed: The reload for file failed: it takes longer than 10s: its reader goes on with what it has; healthd keeps trying")
		begun := time.Now()
		s.end()
		if took := time.Since(begun); took > 0 {
			t.Errorf("the end took %v", took)
		}
	})
}

// A check that refuses a content leaves the old one, be it asked before or after the new one is in place. The same content
// is tried again once a minute, another one at once.
func TestCheckRefuses(t *testing.T) {
	for name, change := range map[string]func(*File){"in place": checked, "candidate": looked} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, change)
				s.ready("a", "b")
				s.start()
				s.wantsRun("0s check shop/web: a b;", "0s reload shop/web: a b;")
				s.fails("check")
				s.after(time.Second)
				s.out("a")
				s.wants("shop/web: a b;")
				s.wantsRun("1s check shop/web: b;")
				s.wantsEvents("FileFailed: The check refuses file: exit status 1: it is wrong: the file stays as it was")
				s.after(time.Minute)
				s.wantsRun("1m1s check shop/web: b;")
				s.after(time.Second)
				s.ready("c")
				s.wantsRun("1m2s check shop/web: b c;")
				s.wants("shop/web: a b;")
				s.succeeds()
				s.after(time.Minute)
				s.wantsRun("2m2s check shop/web: b c;", "2m2s reload shop/web: b c;")
				s.wants("shop/web: b c;")
				s.wantsEvents("FileBack: file is what it should be again")
				s.end()
				s.wantsClean("file")
			})
		})
	}
}

// A check that refuses the first content leaves no file.
func TestCheckRefusesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, checked)
		s.fails("check")
		s.ready("a")
		s.start()
		s.wants("-")
		s.end()
		s.wantsClean()
	})
}

// When what was refused is not wanted any more, the file is what it should be.
func TestRefusedAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, checked)
		s.ready("a")
		s.start()
		s.after(time.Second)
		s.fails("check")
		s.ready("b")
		s.after(time.Second)
		s.wantsEvents("FileFailed: The check refuses file")
		s.wantsRun("0s check shop/web: a;", "0s reload shop/web: a;", "1s check shop/web: a b;")
		s.out("b")
		s.wantsEvents("FileBack: ")
		s.wantsRun()
		s.end()
	})
}

// Services keep their place when all their containers are gone, also over a restart of healthd, for 30 days.
func TestServicesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.ready("a")
		s.board.Show(member("blog/api", "x", 30, isReady))
		s.start()
		s.wants("blog/api: x;shop/web: a;")
		s.board.Remove("x")
		s.wants("blog/api:;shop/web: a;")
		s.end()
		s.after(29 * 24 * time.Hour)
		s.start()
		s.wants("blog/api:;shop/web: a;")
		s.after(26 * time.Hour)
		s.wants("shop/web: a;")
		s.wantsEvents()
		s.end()
	})
}

// A reload that is owed is made by the next daemon, whatever became of the one before. One that was made is not made again.
func TestOwedReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.hangs("reload")
		s.ready("a")
		s.start()
		s.wantsRun("0s reload shop/web: a;")
		s.end() // while it reloads
		s.succeeds()
		s.start()
		s.wantsRun("0s reload shop/web: a;")
		s.end()
		s.start()
		s.after(time.Minute)
		s.wantsRun()
		s.hangs("reload")
		s.ready("b")
		s.wantsRun("1m0s reload shop/web: a b;")
		s.end()
		s.succeeds()
		s.out("b") // the file is as it was when it was reloaded last, but its reader may have seen another one
		s.start()
		s.wantsRun("1m0s reload shop/web: a;")
		s.end()
		s.wantsEvents()
	})
}

// What was kept and cannot be read is set aside, told of once, and everything is reloaded.
func TestDamagedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, text := range []string{"{", `{"version":7}`, ""} {
			s := newScene(t, reloaded)
			s.ready("a")
			s.start()
			s.wantsRun("0s reload shop/web: a;")
			s.end()
			path := s.state + "/publish_files.json"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start()
			s.wantsRun("0s reload shop/web: a;")
			s.wantsEvents("FileFailed: Cannot read what was kept of published files: " + path)
			s.end()
			s.start()
			s.wantsRun()
			s.wantsEvents()
			s.end()
			if aside, err := os.ReadFile(path + ".damaged"); err != nil || string(aside) != text {
				t.Errorf("set aside was %q, %v", aside, err)
			}
		}
	})
}

// A template that fails leaves the file as it is.
func TestTemplateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(f *File) {
			f.Template = mustParse(t, short+`{{if gt (len (service "shop/web").Ready) 1}}{{service "shop web"}}{{end}}`)
		})
		s.ready("a")
		s.start()
		s.wants("shop/web: a;")
		s.after(time.Second)
		s.ready("b")
		s.wantsEvents("FileFailed: Cannot render file: own.tmpl:1:")
		s.after(time.Minute)
		s.wants("shop/web: a;")
		s.out("a")
		s.wants("shop/web: b;")
		s.wantsEvents("FileBack: ")
		s.end()
	})
}

// A service that could break a syntax is left out, and told of once.
func TestHostileService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.board.Show(member("shop/x; }\n", "x", 1, isReady))
		s.start()
		s.ready("a")
		s.after(time.Minute)
		s.wants("shop/web: a;")
		s.wantsEvents(`FileFailed: Service "shop/x; }" is not in file: its name has other characters`)
		for i := range 300 {
			s.board.Show(member(fmt.Sprint("evil ", i), fmt.Sprint("evil-", i), i, isReady))
		}
		s.after(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.events); n != 99 {
			t.Errorf("%d events", n)
		}
		s.end()
	})
}

// Files that somebody else writes, too, are written again, but not all the time.
func TestAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.ready("a", "b")
		s.answers(func(context.Context, string) (string, error) {
			return "", os.WriteFile(s.files[0].Path, []byte("mine"), 0o600)
		})
		s.start()
		s.after(10 * time.Second)
		s.mu.Lock()
		if n := len(s.ran); n < 5 || n > 12 {
			t.Errorf("%d reloads within 10 s", n)
		}
		s.ran = nil
		s.mu.Unlock()
		s.succeeds()
		s.after(2 * time.Second)
		s.wants("shop/web: a b;")
		s.end()
	})
}

// Two who write one file are told of. One who edits it once is not.
func TestFileThatAnotherWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.ready("a", "b")
		s.start()
		edit := func() {
			s.after(2 * time.Second)
			if err := os.WriteFile(s.files[0].Path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.out("a")
			s.after(2 * time.Second)
			s.ready("a")
			s.after(2 * time.Second)
		}
		edit()
		s.wantsEvents()
		for range manyOthers {
			edit()
		}
		s.wantsEvents("FileFailed: Something else writes")
		if n := len(s.now.Problems()); n != 1 {
			t.Errorf("%d warnings", n)
		}
		s.after(ofLate)
		s.out("a")
		s.after(time.Second)
		if all := s.now.Problems(); len(all) != 0 {
			t.Errorf("still %q", all)
		}
		s.end()
	})
}
