package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
)

// lastLines returns the last lines of a container's log.
func lastLines(t *testing.T, e Engine, id string, lines, bytes int) runtime.Log {
	t.Helper()
	l, err := e.Logs(t.Context(), id, lines, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func logIsRead(t *testing.T, p Private) {
	e := connect(t, p)
	began := time.Now()
	id := p.Run(t, Container{Cmd: []string{"sh", "-c", "for i in $(seq 300); do echo out $i; done; sleep 0.3; echo at last >&2; exec sleep 1003"}})
	// An engine copies the two outputs by themselves: on a busy machine the last line may come first. It comes before the end:
	// containerd on a busy machine loses what is written just before that.
	var all []runtime.LogLine
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log has %d lines, at its end %+v", len(all), all[max(0, len(all)-3):])
		}
	})
	Eventually(t, "all its lines are there", func() bool {
		all = lastLines(t, e, id, 400, 64<<10).Lines
		return len(all) == 301 && slices.ContainsFunc(all, func(l runtime.LogLine) bool { return l.Text == "at last" })
	})
	signalFromHost(t, inspect(t, e, id), syscall.SIGKILL)
	waitForEnd(t, e, id)
	l := lastLines(t, e, id, 200, 64<<10)
	if len(l.Lines) != 200 || l.Cut {
		t.Fatalf("got %d lines, cut: %v", len(l.Lines), l.Cut)
	}
	out := slices.DeleteFunc(slices.Clone(l.Lines), func(l runtime.LogLine) bool { return l.Text == "at last" })
	for i, line := range out {
		if want := fmt.Sprintf("out %d", 300-len(out)+1+i); line.Text != want {
			t.Fatalf("line %d is %q, want %q", i, line.Text, want)
		}
		if !line.Time.IsZero() && (line.Time.Before(began.Add(-time.Minute)) || line.Time.After(time.Now().Add(time.Minute))) {
			t.Fatalf("line %d is of %v", i, line.Time)
		}
	}
	few := lastLines(t, e, id, 200, 100)
	size := 0
	for _, line := range few.Lines {
		size += len(line.Text)
	}
	if !few.Cut || size > 100 || size == 0 || !strings.HasSuffix(few.Lines[len(few.Lines)-1].Text, l.Lines[199].Text) {
		t.Errorf("of 100 bytes: got %d bytes %+v", size, few)
	}
	silent := p.Run(t, Container{Cmd: deaf})
	if l := lastLines(t, e, silent, 200, 100); len(l.Lines) != 0 || l.Cut {
		t.Errorf("who wrote nothing has the log %+v", l)
	}
}

// The engine's own pieces of a line are of 16 kB.
func logWithoutLineBreakIsBounded(t *testing.T, p Private) {
	e := connect(t, p)
	const most = 64 << 10
	id := p.Run(t, Container{Cmd: []string{"sh", "-c", "dd if=/dev/zero bs=65536 count=1000 2>/dev/null | tr '\\0' x; exit 0"}})
	waitForEnd(t, e, id)
	l := lastLines(t, e, id, 200, most)
	size := 0
	for _, line := range l.Lines {
		size += len(line.Text)
	}
	if !l.Cut || size > most || size < most/2 || strings.Trim(l.Lines[len(l.Lines)-1].Text, "x") != "" && l.Lines[0].Time.IsZero() && len(l.Lines) > 1 {
		t.Errorf("got %d bytes in %d lines, cut: %v", size, len(l.Lines), l.Cut)
	}
}

func processesAndUsage(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: []string{"sh", "-c", "sleep 1001 & while :; do :; done"}, Memory: 64 << 20})
	Eventually(t, "its child runs", func() bool { return ProcessesRunning(id, "sleep") == 1 })
	list, err := e.Processes(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	command := slices.IndexFunc(list.Titles, func(title string) bool { return strings.Contains(title, "COMMAND") || title == "CMD" })
	if command < 0 || !slices.ContainsFunc(list.Titles, func(title string) bool { return title == "PID" }) {
		t.Fatalf("got the titles %q", list.Titles)
	}
	if !slices.ContainsFunc(list.Rows, func(row []string) bool { return strings.Contains(row[command], "sleep 1001") }) || len(list.Rows) != 2 {
		t.Errorf("got %q", list.Rows)
	}
	var before, now runtime.Usage
	Eventually(t, "it uses the CPU", func() bool {
		before = now
		if now, err = e.Usage(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return before.CPU > 0 && now.CPU > before.CPU
	})
	if now.Memory == 0 || now.Memory > 64<<20 || now.MemoryLimit != 64<<20 || now.PIDs < 2 {
		t.Errorf("got %+v", now)
	}
}

func endedHasNoProcesses(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: []string{"true"}})
	waitForEnd(t, e, id)
	if list, err := e.Processes(t.Context(), id); err == nil && len(list.Rows) > 0 {
		t.Errorf("got %+v", list)
	}
}

func noEvidenceOfNobody(t *testing.T, p Private) {
	e := connect(t, p)
	for what, ask := range map[string]func() error{
		"logs":      func() error { _, err := e.Logs(t.Context(), "nosuch", 1, 1); return err },
		"processes": func() error { _, err := e.Processes(t.Context(), "nosuch"); return err },
		"usage":     func() error { _, err := e.Usage(t.Context(), "nosuch"); return err },
	} {
		if err := ask(); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
