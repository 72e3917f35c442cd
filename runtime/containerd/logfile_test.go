package containerd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"healthd/runtime"
)

// nerdctlHome is an Engine whose container web logs to nerdctl, which keeps that config of it.
func nerdctlHome(t *testing.T, config string) (e *Engine, dir string) {
	t.Helper()
	home := t.TempDir()
	e, err := New(Config{Endpoint: "/nowhere", NerdctlDir: home})
	if err != nil {
		t.Fatal(err)
	}
	k := key{defaultNamespace, "web"}
	e.records.change(k, func(rec *record) {
		rec.LogURI = "binary:///usr/bin/nerdctl?" + nerdctlLogArgument + "=" + url.QueryEscape(home)
	})
	dir = filepath.Join(home, "containers", k.namespace, k.id)
	write(t, filepath.Join(dir, "log-config.json"), config)
	return e, dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func entry(text string) string {
	return fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-01-02T03:04:05Z"}`+"\n", text)
}

func TestNerdctlLogIsRead(t *testing.T) {
	e, dir := nerdctlHome(t, `{"driver":"json-file"}`)
	file := filepath.Join(dir, "web-json.log")
	write(t, file, entry("one\n")+"garbage\n"+entry("half ")+entry("a line\n")+entry("<last>\n"))
	l, err := e.Logs(t.Context(), "web", 200, 1000)
	if err != nil || len(l.Lines) != 3 {
		t.Fatalf("got %+v, %v", l, err)
	}
	for i, want := range []string{"one", "half a line", "<last>"} {
		if got := l.Lines[i]; got.Text != want || got.Time.Year() != 2026 {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
	write(t, file, strings.Repeat(entry("line\n"), 100_000))
	if l, err := e.Logs(t.Context(), "web", 200, 1<<20); err != nil || len(l.Lines) != 200 || l.Cut {
		t.Errorf("of a long file: %d lines, %v, %v", len(l.Lines), l.Cut, err)
	}
	write(t, file, entry(strings.Repeat("x", 2*maxLogRead)))
	if l, err := e.Logs(t.Context(), "web", 200, 1000); err != nil || len(l.Lines) != 0 || !l.Cut {
		t.Errorf("of an endless line: %d lines, %v, %v", len(l.Lines), l.Cut, err)
	}
}

func TestLogThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct{ config, uri, why string }{
		"another driver": {`{"driver":"syslog"}`, "", "its log driver is syslog"},
		"no file":        {`{}`, "", "no such file"},
		"not kept":       {`{}`, "fifo", "goes to fifo"},
		"nowhere":        {`{}`, "file:///dev/null", "goes to file:///dev/null"},
		"a device":       {`{}`, "file:///dev/zero", "is no file"},
		"another's data": {`{}`, "binary:///usr/bin/nerdctl?" + nerdctlLogArgument + "=%2Felsewhere", "goes to binary:///"},
	} {
		e, dir := nerdctlHome(t, tt.config)
		if tt.uri != "" {
			e.records.change(key{defaultNamespace, "web"}, func(rec *record) { rec.LogURI = tt.uri })
		}
		_, err := e.Logs(t.Context(), "web", 200, 1000)
		if !errors.Is(err, runtime.ErrNotReadable) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: got %v", name, err)
		}
		fifo := filepath.Join(dir, "web-json.log")
		if tt.uri == "" && tt.config == `{}` {
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Logs(t.Context(), "web", 200, 1000); !errors.Is(err, runtime.ErrNotReadable) {
				t.Errorf("a FIFO: got %v", err)
			}
		}
	}
	e, _ := nerdctlHome(t, `{}`)
	if _, err := e.Logs(t.Context(), "other", 200, 1000); !errors.Is(err, runtime.ErrNotReadable) { // nothing listens there
		t.Errorf("a container that healthd does not know: got %v", err)
	}
}

func FuzzUnpackLog(f *testing.F) {
	f.Add([]byte(entry("a\n") + entry("b")))
	f.Add([]byte(`{"log":5}` + "\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tail := runtime.NewTail(100)
		unpackLog(tail, text, true)
		l := tail.Log(5)
		l.TakeTimes()
		if len(l.Lines) > 5 {
			t.Errorf("got %d lines", len(l.Lines))
		}
	})
}
