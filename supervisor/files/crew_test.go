package files

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor"
)

// A reload of the configuration begins what is new, goes on with what is the same, and leaves on the disk what is gone.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.add("second", nil)
		s.ready("a")
		s.start()
		s.wantsRun("0s reload shop/web: a;")
		use := func(files ...File) {
			t.Helper()
			if err := s.now.Reload(t.Context(), files); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		again := s.files[0]
		again.Template, again.Covers = mustParse(t, short), func(name string) bool { return true }
		use(again, s.files[1])
		s.after(time.Minute)
		s.wantsRun()
		changed := again
		changed.Template = mustParse(t, "# "+short)
		use(changed)
		s.wantsRun("1m0s reload # shop/web: a;")
		s.out("a")
		s.wantsRun("1m0s reload # shop/web:;")
		if second, err := os.ReadFile(s.files[1].Path); err != nil || string(second) != "shop/web: a;" {
			t.Errorf("the file that is gone has %q, %v", second, err)
		}
		if _, series := s.metric("healthd_published_file_up"); series != 1 {
			t.Errorf("%d files have series", series)
		}
		s.wantsEvents()
		s.end()
		if err := s.now.Reload(t.Context(), nil); err != supervisor.ErrStopping {
			t.Errorf("got %v", err)
		}
	})
}

// The configuration is reloaded while a reload of a file hangs: the new file begins when that is killed.
func TestReloadWhileOneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.hangs("reload")
		s.ready("a")
		s.start()
		synctest.Wait()
		changed := s.files[0]
		changed.Timeout = time.Minute
		if err := s.now.Reload(t.Context(), []File{changed}); err != nil {
			t.Fatal(err)
		}
		s.wantsRun("0s reload shop/web: a;", "0s reload shop/web: a;")
		s.wantsEvents()
		s.end()
	})
}

// A file that is taken out and put in again, while its first goroutine has not ended, has one at a time.
func TestReloadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		under, most := 0, 0
		s.answers(func(context.Context, string) (string, error) { // it does not hear that it is to end
			under++
			most = max(most, under)
			time.Sleep(time.Second)
			under--
			return "", nil
		})
		s.ready("a")
		s.start()
		synctest.Wait()
		for _, files := range [][]File{nil, s.files, nil, s.files} {
			if err := s.now.Reload(t.Context(), files); err != nil {
				t.Fatal(err)
			}
		}
		s.after(10 * time.Second)
		if most != 1 {
			t.Errorf("%d reloads at a time", most)
		}
		s.end()
	})
}
