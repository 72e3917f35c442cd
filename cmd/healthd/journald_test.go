package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
)

// parseEntry reads an entry as journald does (systemd's JOURNAL_NATIVE_PROTOCOL).
func parseEntry(t testing.TB, data []byte) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			t.Fatalf("the entry ends within a line: %q", data)
		}
		if name, value, plain := strings.Cut(string(head), "="); plain {
			fields[name] = value
			data = rest
			continue
		}
		if len(rest) < 8 {
			t.Fatalf("no length after %q", head)
		}
		length := binary.LittleEndian.Uint64(rest)
		if rest = rest[8:]; uint64(len(rest)) < length+1 || rest[length] != '\n' {
			t.Fatalf("%s has not the length %d: %q", head, length, rest)
		}
		fields[string(head)], data = string(rest[:length]), rest[length+1:]
	}
	return fields
}

// listenEntries is a stand-in for journald.
func listenEntries(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func readEntry(t *testing.T, conn *net.UnixConn) map[string]string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience.Limit)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return parseEntry(t, buf[:n])
}

// journaldLogger returns a logger, and flush, which waits until all is written.
func journaldLogger(t *testing.T, socket string, stderr io.Writer) (log *zap.Logger, flush func()) {
	t.Helper()
	log, queue := newJournaldLogger(zapcore.InfoLevel, socket, stderr)
	t.Cleanup(func() { _ = queue.close(patience.Limit) })
	return log, func() {
		t.Helper()
		if err := queue.flush(patience.Limit); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJournaldFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listenEntries(t, path)
	var stderr bytes.Buffer
	log, flush := journaldLogger(t, path, &stderr)
	evil := "a\nPRIORITY=0\n\x1b[2J\xff" + strings.Repeat("x", 100_000)
	log.Debug("nothing")
	log.Warn("event", zap.String("reason", "Unhealthy"), zap.String("message", "Liveness probe failed (1/3): no"), zap.String("container", "web-1"),
		zap.String("probe", "liveness"), zap.String("service", "shop/web"), zap.String("runtime", "docker"))
	log.Info("event", zap.String("reason", "RuntimeLost"), zap.String("message", "it is gone"), zap.Int("count", 7))
	log.With(zap.String("runtime", "docker")).Error("cannot ask", zap.String("container", evil), zap.Error(errors.New("no\nway")))
	for _, want := range []map[string]string{
		{"PRIORITY": "4", "MESSAGE": "web-1: Unhealthy: Liveness probe failed (1/3): no", "CONTAINER": "web-1", "PROBE": "liveness", "REASON": "Unhealthy", "SERVICE": "shop/web", "RUNTIME": "docker"},
		{"PRIORITY": "6", "MESSAGE": "RuntimeLost: it is gone (7 times)", "REASON": "RuntimeLost"},
	} {
		want["SYSLOG_IDENTIFIER"] = "healthd"
		got := readEntry(t, conn)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s=%q, want %q", name, got[name], value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("got %q", got)
		}
	}
	got := readEntry(t, conn)
	if got["PRIORITY"] != "3" || got["RUNTIME"] != "docker" || !strings.HasPrefix(got["CONTAINER"], "a PRIORITY=0 ?[2J?xxx") || len(got["CONTAINER"]) > maxJournalField+10 ||
		!strings.HasPrefix(got["MESSAGE"], `cannot ask {"runtime": "docker", "container": "a\nPRIORITY=0\n`) || len(got["MESSAGE"]) > maxJournalMessage+10 || strings.Contains(got["MESSAGE"], "\n") {
		t.Errorf("got %.300q", got)
	}
	flush()
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %s", &stderr)
	}
}

// Without journald's socket the log goes to stderr, and back when there is one.
func TestJournaldAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	var stderr bytes.Buffer
	plain, flush := journaldLogger(t, path, &stderr)
	log := plain.With(zap.String("runtime", "docker"))
	log.Warn("hello", zap.String("container", "web-1"))
	flush()
	if got, want := stderr.String(), "<4>hello {\"runtime\": \"docker\", \"container\": \"web-1\"}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	first := listenEntries(t, path)
	log.Warn("one")
	readEntry(t, first)
	first.Close()
	_ = os.Remove(path)
	second := listenEntries(t, path)
	log.Warn("two") // over a new connection
	if got := readEntry(t, second)["MESSAGE"]; !strings.HasPrefix(got, "two") {
		t.Errorf("got %q", got)
	}
}

// A journald that does not read holds nobody up for long, and loses messages without silence about it.
func TestJournaldThatDoesNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listenEntries(t, path)
	var stderr bytes.Buffer
	log, flush := journaldLogger(t, path, &stderr)
	const messages = 800 // more than a socket's queue has room for
	for range messages {
		log.Info("again")
	}
	flush() // it would fail with a second for each of them
	if err := log.Sync(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sync: %v", err)
	}
	read := drain(t, conn)
	log.Info("at last")
	if got := readEntry(t, conn); !strings.Contains(got["MESSAGE"], " did not keep up, or was away: ") || got["PRIORITY"] != "4" || read == 0 || read == messages {
		t.Errorf("after %d messages: %q", read, got)
	}
	if got := readEntry(t, conn)["MESSAGE"]; got != "at last" {
		t.Errorf("got %q", got)
	}
	if err := log.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
	flush()
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %s", &stderr)
	}
}

// The note of a loss goes where the next message goes.
func TestLossBeforeJournaldIsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	first := listenEntries(t, path)
	var stderr bytes.Buffer
	log, flush := journaldLogger(t, path, &stderr)
	for range 600 { // more than a socket's queue has room for
		log.Info("again")
	}
	flush()
	first.Close()
	_ = os.Remove(path)
	log.Info("away")
	flush()
	if got := stderr.String(); !regexp.MustCompile(`^<4>what reads .* lines lost\n<6>away\n$`).MatchString(got) {
		t.Errorf("on stderr: %q", got)
	}
	second := listenEntries(t, path)
	log.Info("back")
	if got := readEntry(t, second)["MESSAGE"]; got != "back" {
		t.Errorf("got %q", got)
	}
}

func FuzzJournaldEntry(f *testing.F) {
	f.Add("web-1\nPRIORITY=0", "text")
	f.Add("\xff\x00", strings.Repeat("é", 60_000))
	f.Fuzz(func(t *testing.T, container, message string) {
		got := parseEntry(t, entryOf(4, message, map[string]any{"container": container, "probe": 1}))
		if got["PRIORITY"] != "4" || got["SYSLOG_IDENTIFIER"] != "healthd" || strings.ContainsAny(got["CONTAINER"]+got["MESSAGE"], "\n\x00\x1b") || len(got) > 4 {
			t.Errorf("got %q", got)
		}
	})
}

// drain reads the entries that are there, and returns how many.
func drain(t *testing.T, conn *net.UnixConn) (n int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for entry := make([]byte, 4096); ; n++ {
		var got error
		if err := raw.Control(func(fd uintptr) { _, _, got = unix.Recvfrom(int(fd), entry, unix.MSG_DONTWAIT) }); err != nil {
			t.Fatal(err)
		}
		if errors.Is(got, unix.EAGAIN) {
			return n
		} else if got != nil {
			t.Fatal(got)
		}
	}
}
