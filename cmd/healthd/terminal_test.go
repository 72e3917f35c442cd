package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
)

// openTerminal returns the two ends of a terminal of which nobody has said how large it
// is: what a program is given, and what is before it.
func openTerminal(t *testing.T) (inside, before *os.File) {
	t.Helper()
	before, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { before.Close() })
	number, err := unix.IoctlGetInt(int(before.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(before.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	return inside, before
}

func TestTerminalSize(t *testing.T) {
	inside, _ := openTerminal(t)
	for _, tt := range []struct {
		rows, columns uint16
		width, height int
	}{{0, 0, 80, 24}, {0, 120, 120, 24}, {50, 0, 80, 50}, {50, 120, 120, 50}} {
		size := &unix.Winsize{Row: tt.rows, Col: tt.columns}
		if err := unix.IoctlSetWinsize(int(inside.Fd()), unix.TIOCSWINSZ, size); err != nil {
			t.Fatal(err)
		}
		if width, height, ok := terminalSize(inside); width != tt.width || height != tt.height || !ok {
			t.Errorf("%dx%d: got %dx%d, %v", tt.columns, tt.rows, width, height, ok)
		}
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, _, ok := terminalSize(file); ok {
		t.Error("a file is taken for a terminal")
	}
}

func TestWatchOnATerminalOfUnknownSize(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	inside, before := openTerminal(t)
	cmd := program(t, "status", "--watch", "--socket", socket)
	cmd.Stdout = inside
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	defer time.AfterFunc(patience.Limit, func() { _ = before.Close(); _ = inside.Close() }).Stop()
	var seen strings.Builder
	for screen := bufio.NewReader(io.TeeReader(before, &seen)); ; {
		line, err := screen.ReadString('\n')
		if err != nil {
			t.Fatalf("no table on the terminal: %v: %q", err, seen.String())
		}
		if strings.Contains(line, "NAME ") && strings.Contains(line, "SINCE") {
			return
		}
	}
}
