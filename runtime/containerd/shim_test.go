package containerd_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestShimDies(t *testing.T) {
	e, private := engine(t)
	l := scenarios.Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := private.Run(t, containerdtest.RunOptions{Name: "orphan", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	n = l.WaitFor(t, n, "observed orphan running")
	killProcess(t, private.Shim(t, id))
	n = l.WaitFor(t, n, "died orphan 137", "observed orphan exited 255")
	if c := inspect(t, e, id); !strings.Contains(c.Error, "shim died") {
		t.Errorf("got %+v", c)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.WaitFor(t, n, "observed orphan running")
}

func TestShimHangs(t *testing.T) {
	e, private := engine(t)
	other := private.Run(t, containerdtest.RunOptions{Name: "other", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	var hung []string
	for _, name := range []string{"hung", "hung2", "hung3"} {
		hung = append(hung, private.Run(t, containerdtest.RunOptions{Name: name, Cmd: deafSleep, Labels: scenarios.Watched(t, nil)}))
	}
	l := scenarios.Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	for _, id := range hung {
		private.FreezeShim(t, id)
	}
	soon, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	list, err := e.List(soon)
	if err != nil || len(list) != 4 {
		t.Errorf("got %+v, %v", list, err)
	}
	if c, err := e.Inspect(soon, other); err != nil || c.State != runtime.Running {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, s := range list {
		if s.Name != "other" && !s.State.Alive() {
			t.Errorf("got %+v", s)
		}
	}
	_, inspected := e.Inspect(t.Context(), hung[0])
	stopped := e.Stop(t.Context(), hung[0], time.Second)
	started := e.Start(t.Context(), hung[0])
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // waits: it must fail
	defer cancel()
	_, _, _, executed := e.Exec(ctx, hung[0], []string{"true"}, time.Second, 10, nil)
	for what, err := range map[string]error{"inspect": inspected, "stop": stopped, "start": started, "exec": executed} {
		if err == nil || errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
		t.Log(what, err)
	}
	private.Signal(t, other, syscall.SIGKILL)
	l.WaitFor(t, n, "observed other exited 137")
	l.MustNotContain(t, "removed hung", "observed hung exited 255")
}
