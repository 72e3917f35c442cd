package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// What is removed or replaced under a running daemon is written anew, with all that was there.
func TestFileThatIsMoved(t *testing.T) {
	for name, move := range map[string]func(dir string) error{
		"the directory is removed": os.RemoveAll,
		"the file is removed":      func(dir string) error { return os.Remove(filepath.Join(dir, fileName)) },
		"the file is replaced": func(dir string) error {
			path := filepath.Join(dir, fileName)
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("of another time"), 0o600)
		},
		"the directory is replaced": func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				j := open(t, dir)
				stop := run(t, j)
				<-j.Remember(remember("a", "1"))
				if err := move(dir); err != nil {
					t.Fatal(err)
				}
				<-j.Remember(remember("b", "1"))
				if got := ownReasons(j); got != "JournalFailed JournalBack" || !j.Up() || j.Problem() != "" {
					t.Errorf("%s, up %v: %s", got, j.Up(), j.Problem())
				}
				if _, err := Open(Config{Dir: dir}); err == nil {
					t.Error("the new directory is not locked")
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				j.Close()
				again := open(t, dir)
				if got := memories(again); got != "a=1 b=1" || ownReasons(again) != "JournalFailed JournalBack" {
					t.Errorf("after a restart: %q, %s", got, ownReasons(again))
				}
			})
		})
	}
}

// A host on which nothing happens finds it within a minute.
func TestFileThatIsMovedInSilence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir)
		run(t, j)
		<-j.Remember(remember("a", "1"))
		time.Sleep(time.Second) // all is written
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(placeEvery + time.Second)
		if got := ownReasons(j); got != "JournalFailed JournalBack" {
			t.Errorf("got %q", got)
		}
	})
}

// At the end, too.
func TestFileThatIsMovedBeforeTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir)
		stop := run(t, j)
		<-j.Remember(remember("a", "1"))
		time.Sleep(time.Second)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		j.Close()
		if got := memories(open(t, dir)); got != "a=1" {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// Where no new one can be made, healthd says so, and tries again.
func TestFileThatIsMovedForGood(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "state")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir)
		run(t, j)
		<-j.Remember(remember("a", "1"))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory
			t.Fatal(err)
		}
		<-j.Remember(remember("b", "1"))
		if got := ownReasons(j); got != "JournalFailed" || j.Up() || !strings.Contains(j.Problem(), ": it was removed or replaced while healthd used it: ") ||
			!strings.Contains(j.Problem(), "is lost when it ends") {
			t.Errorf("%s: %s", got, j.Problem())
		}
		j.Record(core.Event{Reason: "Started"})
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryMax)
		if got := ownReasons(j); got != "JournalFailed JournalBack" || !j.Up() {
			t.Errorf("%s: %s", got, j.Problem())
		}
	})
}
