package files

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a small file system, which is writable or not.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("cannot mount a tmpfs, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// The new file has the mode and owner of the old one, or else 0644. A link stays one.
func TestModeOwnerAndLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		real := filepath.Join(s.dir, "real")
		put(t, real, "old", 0o640)
		if err := os.Chown(real, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("real", s.files[0].Path); err != nil {
			t.Fatal(err)
		}
		s.add("new", nil)
		if err := os.Symlink(filepath.Join(s.dir, "to-come"), filepath.Join(s.dir, "dangling")); err != nil {
			t.Fatal(err)
		}
		s.add("dangling", nil)
		s.ready("a")
		s.start()
		s.wants("shop/web: a;")
		for name, want := range map[string]string{"real": "-rw-r----- 65534", "new": "-rw-r--r-- 0", "to-come": "-rw-r--r-- 0"} {
			info, err := os.Lstat(filepath.Join(s.dir, name))
			if err != nil {
				t.Error(err)
				continue
			}
			if got := info.Mode().String() + " " + uidOf(info); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		for _, name := range []string{"file", "dangling"} {
			if info, err := os.Lstat(filepath.Join(s.dir, name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s is no link any more: %v", name, err)
			}
		}
		s.wantsEvents()
		s.end()
		s.wantsClean("file", "real", "new", "dangling", "to-come")
	})
}

func uidOf(info os.FileInfo) string {
	text, _ := json.Marshal(info.Sys().(*syscall.Stat_t).Uid)
	return string(text)
}

// A candidate is made where nobody watches, if it can be renamed from there. Its name is none of a configuration.
func TestCandidatePlaces(t *testing.T) {
	parent, other := t.TempDir(), tmpfs(t, "size=64k")
	dir := filepath.Join(parent, "conf.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bound := filepath.Join(parent, "bound")
	if err := os.Mkdir(bound, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(bound, bound, "", unix.MS_BIND, ""); err != nil { // as ReadWritePaths= does
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(bound, unix.MNT_DETACH) })
	for _, tt := range []struct {
		state, target string
		want          []string
	}{
		{parent, dir + "/x", []string{parent, parent, dir}},
		{other, dir + "/x", []string{parent, dir}},
		{"", dir + "/x", []string{parent, dir}},
		{parent, other + "/x", []string{other}},
		{parent, bound + "/x", []string{bound}},
		{dir, dir + "/x", []string{parent, dir}},
		{"/missing", "/x", []string{"/"}},
	} {
		if got := candidatePlaces(tt.state, tt.target); strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("state %s, target %s: got %v, want %v", tt.state, tt.target, got, tt.want)
		}
	}
	if name := hiddenName("/etc/traefik/x.yaml"); !strings.HasPrefix(name, ".healthd-") || filepath.Ext(strings.TrimPrefix(name, ".")) != "" {
		t.Errorf("a candidate is named %s", name)
	}
}

// On a full disk the old file stays, whole. When there is room again, the new one comes.
func TestFullDisk(t *testing.T) {
	for name, change := range map[string]func(*File){"plain": nil, "checked": checked, "looked at": looked} {
		t.Run(name, func(t *testing.T) {
			dir := tmpfs(t, "size=32k")
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, change)
				s.dir, s.files[0].Path = dir, filepath.Join(dir, "conf.d", "file")
				if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o755); err != nil {
					t.Fatal(err)
				}
				s.ready("a")
				s.start()
				s.wants("shop/web: a;")
				filler := filepath.Join(dir, "filler")
				full := os.WriteFile(filler, make([]byte, 64<<10), 0o600)
				if full == nil {
					t.Fatal("the disk is not full")
				}
				s.after(time.Second)
				s.ready("b")
				s.after(time.Second)
				s.out("a")
				s.wants("shop/web: a;")
				s.after(time.Minute)
				s.wantsEvents("FileFailed: Cannot write conf.d/file: ")
				if up, _ := s.metric("healthd_published_file_up"); up != 0 {
					t.Error("the file is up")
				}
				if err := os.Remove(filler); err != nil {
					t.Fatal(err)
				}
				s.after(time.Minute)
				s.wants("shop/web: b;")
				s.wantsEvents("FileBack: conf.d/file is what it should be again")
				s.end()
			})
		})
	}
}

// A full state directory keeps nothing from being written.
func TestFullStateDir(t *testing.T) {
	for name, change := range map[string]func(*File){"reloaded": reloaded, "checked": checked, "looked at": looked} {
		t.Run(name, func(t *testing.T) {
			state := tmpfs(t, "size=16k")
			if os.WriteFile(filepath.Join(state, "filler"), make([]byte, 64<<10), 0o600) == nil {
				t.Fatal("the disk is not full")
			}
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, change)
				s.state = state
				s.ready("a", "b")
				s.start()
				s.after(time.Second)
				s.out("a")
				s.wants("shop/web: b;")
				s.wantsEvents("FileFailed: Cannot keep what healthd knows of published files: ")
				if change != nil {
					s.fails("check")
				}
				s.out("b")
				if name == "reloaded" {
					s.wants("shop/web:;")
				} else {
					s.wants("shop/web: b;") // put back from memory
				}
				if err := os.Remove(filepath.Join(state, "filler")); err != nil {
					t.Fatal(err)
				}
				s.succeeds()
				s.after(2 * time.Minute)
				s.mu.Lock()
				text := strings.Join(s.events, "\n")
				s.mu.Unlock()
				if !strings.Contains(text, "FileBack: What healthd knows of published files is kept again") {
					t.Errorf("events %s", text)
				}
				s.end()
			})
		})
	}
}

// A directory that may not be written says what to do. A path that became a directory, and one without its directory, are
// told of, and come right when somebody mends them.
func TestPlacesThatFail(t *testing.T) {
	readOnly := tmpfs(t, "size=64k")
	if err := unix.Mount("", readOnly, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.files[0].Path = filepath.Join(readOnly, "conf.d")
		s.ready("a")
		s.start()
		s.after(time.Minute)
		s.wantsEvents("FileFailed: Cannot write " + readOnly + "/conf.d: open " + readOnly + "/.healthd-")
		if all := s.now.Problems(); len(all) != 1 || !strings.HasSuffix(all[0], ": its readers go on with what they have; healthd keeps trying") {
			t.Errorf("problems %q", all)
		}
		s.end()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		if err := os.MkdirAll(filepath.Join(s.files[0].Path, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.add("missing/file", nil)
		s.ready("a")
		s.start()
		s.after(time.Minute)
		s.mu.Lock()
		text := strings.Join(s.events, "\n")
		s.events = nil
		s.mu.Unlock()
		if len(strings.Split(text, "\n")) != 2 || !strings.Contains(text, "file is not a regular file") || !strings.Contains(text, "Cannot write missing/file: ") || !strings.Contains(text, "no such file or directory") {
			t.Errorf("events\n%s", text)
		}
		if err := os.RemoveAll(s.files[0].Path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(s.dir, "missing"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.after(2 * time.Minute)
		s.wants("shop/web: a;")
		s.end()
	})
	err := withAdvice(&os.PathError{Op: "open", Path: "/etc/nginx/conf.d/x", Err: unix.EROFS}, "/etc/nginx/conf.d/x")
	if want := "systemctl edit healthd, [Service], ReadWritePaths=/etc/nginx/conf.d, then systemctl restart healthd"; !strings.Contains(err.Error(), want) {
		t.Errorf("the advice is %v", err)
	}
}

// A pipe at the path is no file, and nobody waits for its writer.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readContent(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got %v", err)
	}
}

// killedHelper is a daemon that its own check or reload kills.
const killedHelper = "HEALTHD_FILES_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedHelper); dir != "" {
		runUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func runUntilKilled(dir string) {
	t := &testing.T{}
	s := &scene{t: t, dir: dir}
	s.board = boardOf("b")
	f := File{Path: filepath.Join(dir, "file"), Template: must(Parse("own.tmpl", short)), Covers: everything, Timeout: time.Minute}
	_ = json.Unmarshal([]byte(os.Getenv("CHECK")), &f.Check)
	_ = json.Unmarshal([]byte(os.Getenv("RELOAD")), &f.Reload)
	p := New(Config{History: s, StateDir: filepath.Join(dir, "state"), Files: []File{f}})
	_ = p.Run(context.Background(), s)
}

// A daemon that is killed by SIGKILL while a check or a reload runs leaves what the next one brings to its right end.
func TestKilled(t *testing.T) {
	kill := `["sh","-c","kill -9 $PPID; sleep 60"]`
	for name, tt := range map[string]struct{ old, check, reload, left string }{
		"in a check in place":           {"shop/web: a;", kill, `["true"]`, "shop/web: b;"},
		"in a check of a first file":    {"", kill, `["true"]`, "shop/web: b;"},
		"in a check of a candidate":     {"shop/web: a;", `["sh","-c","kill -9 $PPID; sleep 60","{candidate}"]`, `["true"]`, "shop/web: a;"},
		"in a reload":                   {"shop/web: a;", "null", kill, "shop/web: b;"},
		"in a reload after a check":     {"shop/web: a;", `["true"]`, kill, "shop/web: b;"},
		"in a reload of the first file": {"", "null", kill, "shop/web: b;"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if tt.old != "" {
				put(t, path, tt.old, 0o644)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), killedHelper+"="+dir, "CHECK="+tt.check, "RELOAD="+tt.reload)
			err := cmd.Run()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("it ended with %v", err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tt.left {
				t.Fatalf("it left %q, %v", text, err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.dir, s.state = dir, filepath.Join(dir, "state")
				s.files[0].Path = path
				_ = json.Unmarshal([]byte(tt.check), &s.files[0].Check)
				s.files[0].Reload = []string{"reload"}
				s.fails("sh") // and what is in place now, no check has taken
				s.ready("b")
				s.start()
				if strings.Contains(name, "in a check") {
					s.wants(map[bool]string{true: "-", false: tt.old}[tt.old == ""])
					s.succeeds()
					s.after(time.Minute)
				}
				s.wants("shop/web: b;")
				s.mu.Lock()
				if last := s.ran[len(s.ran)-1]; !strings.HasSuffix(last, "reload shop/web: b;") {
					t.Errorf("at the end there ran %q", last)
				}
				s.mu.Unlock()
				s.end()
				s.wantsClean("file", "state")
			})
		})
	}
}

// A daemon may be killed between any two steps. Whatever is left of them, the next one ends right.
func TestKilledBetweenSteps(t *testing.T) {
	hash := func(text string) string { c := content{text: []byte(text)}; return c.digest().String() }
	const was, is, other = "shop/web: a;", "shop/web: b;", "shop/web: z;"
	for _, tt := range []struct {
		name              string
		file, old         string // "": it is not there
		loaded            string
		note              *restore
		reloads, restores bool
	}{
		{name: "after the candidate", file: was, loaded: was, reloads: true},
		{name: "after it was noted that nobody knows", file: was, reloads: true},
		{name: "after the old file was kept", file: was, old: was, loaded: was, reloads: true},
		{name: "before the new one was in place", file: was, old: was, note: &restore{Content: hash(is)}, reloads: true},
		{name: "after the new one was in place", file: is, old: was, note: &restore{Content: hash(is)}, reloads: true, restores: true},
		{name: "after the old one was put back", file: was, note: &restore{Content: hash(is)}, reloads: true},
		{name: "after the check", file: is, old: was, reloads: true},
		{name: "after the old one was removed", file: is, reloads: true},
		{name: "after the reload", file: is, reloads: true},
		{name: "after the end", file: is, loaded: is},
		{name: "the first file, before it was in place", note: &restore{Content: hash(is), Absent: true}, reloads: true},
		{name: "the first file, in place", file: is, note: &restore{Content: hash(is), Absent: true}, reloads: true, restores: true},
		{name: "another is there since", file: other, old: was, note: &restore{Content: hash(is)}, reloads: true},
		{name: "another is there since the first", file: other, note: &restore{Content: hash(is), Absent: true}, reloads: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, checked)
				path := s.files[0].Path
				old := (&Publisher{config: Config{StateDir: s.state}}).oldPath(path)
				put(t, filepath.Join(s.state, hiddenName(path)), "half of a candi", 0o600)
				put(t, filepath.Join(s.dir, hiddenName(path)), "half of a candi", 0o600)
				for at, text := range map[string]string{path: tt.file, old: tt.old} {
					if text != "" {
						put(t, at, text, 0o644)
					}
				}
				e := &entry{Restore: tt.note}
				if tt.loaded != "" {
					e.Loaded = hash(tt.loaded)
				}
				if tt.note != nil {
					tt.note.Target = path
					if !tt.note.Absent {
						tt.note.Old = old
					}
				}
				k := &keeper{dir: s.state, files: map[string]*entry{}, tell: func(err error) { t.Error(err) }}
				k.update(path, func(into *entry) { *into = *e })
				s.ready("b")
				s.start()
				s.wants(is)
				s.mu.Lock()
				ran := strings.Join(s.ran, ", ")
				s.mu.Unlock()
				if got := strings.Contains(ran, "reload "+is); got != tt.reloads {
					t.Errorf("there ran %s", ran)
				}
				if tt.restores && !strings.Contains(ran, "check") {
					t.Errorf("the old file was not put back: there ran %s", ran)
				}
				s.wantsEvents()
				s.end()
				s.wantsClean("file")
			})
		})
	}
}

// The old file of a path that is not configured any more is put back, too.
func TestRestoreOfFileThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, checked)
		path := s.files[0].Path
		next := content{text: []byte("new")}
		old := (&Publisher{config: Config{StateDir: s.state}}).oldPath(path)
		put(t, path, "new", 0o644)
		put(t, old, "old", 0o644)
		k := &keeper{dir: s.state, files: map[string]*entry{}, tell: func(err error) { t.Error(err) }}
		k.update(path, func(e *entry) { e.Restore = &restore{Target: path, Old: old, Content: next.digest().String()} })
		configured := s.files
		s.files = nil
		s.start()
		synctest.Wait()
		s.files = configured
		s.wants("old")
		s.wantsEvents()
		s.end()
	})
}
