package containerd_test

import (
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

// Labels that are not UTF-8 are their container's matter: healthd sees it, restarts it and hears
// of its operator, and keeps its other containers.
func TestLabelsThatAreNotUTF8(t *testing.T) {
	onlyInRingTwo(t)
	private := containerdtest.Start(t)
	e := connect(t, private, containerd.Config{})
	l := scenarios.Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := private.Run(t, containerdtest.RunOptions{Name: "garbled", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	beside := private.Run(t, containerdtest.RunOptions{Name: "beside", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	n = max(l.WaitFor(t, n, "observed garbled running"), l.WaitFor(t, n, "observed beside running"))
	neighbour := inspect(t, e, beside)

	// After the replacement two of them have one name.
	if out, err := private.Ctr(t, "containers", "label", id, "bad\xfe=1", "bad\xff=2", "healthd.liveness.period=\xff"); err != nil {
		if strings.Contains(out, "UTF-8") {
			t.Skip("since 1.7, containerd takes no such labels")
		}
		t.Fatal(out, err)
	}
	n = l.WaitFor(t, n, "observed garbled running")
	if labels := l.Newest(id).Labels; labels["healthd.liveness.period"] != "\uFFFD" || labels["bad\uFFFD"] == "" {
		t.Errorf("got the labels %q", labels)
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	if output, code, _, err := e.Exec(t.Context(), id, []string{"echo", "here"}, time.Minute, 100, nil); string(output) != "here\n" || code != 0 || err != nil {
		t.Errorf("got %q, %d, %v", output, code, err)
	}

	for _, argv := range [][]string{
		{"containers", "label", id, "containerd.io/restart.explicitly-stopped=true"},
		{"tasks", "kill", "--signal", "SIGKILL", id},
	} {
		if out, err := private.Ctr(t, argv...); err != nil {
			t.Fatal(out, err)
		}
	}
	n = l.WaitForEnd(t, l.WaitFor(t, n, "killed garbled 15"), "garbled", 137)
	for range 2 {
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		n = l.WaitFor(t, n, "observed garbled running")
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		n = l.WaitForEnd(t, n, "garbled", 137)
	}
	for _, kept := range []string{`labels."bad\xfe"==1`, `labels."bad\xff"==2`, `labels."healthd.liveness.period"=="\xff"`, `labels."containerd.io/restart.explicitly-stopped"==false`} {
		if out, err := private.Ctr(t, "containers", "list", "--quiet", kept); !strings.Contains(out, id) || err != nil {
			t.Errorf("%s: got %q, %v", kept, out, err)
		}
	}

	if out, err := private.Ctr(t, "containers", "delete", id); err != nil {
		t.Fatal(out, err)
	}
	l.WaitFor(t, n, "removed garbled")
	if now := inspect(t, e, beside); now.State != runtime.Running || now.Run() != neighbour.Run() {
		t.Errorf("got %+v, before that %+v", now, neighbour)
	}
	l.MustNotContain(t, "lost")
}
