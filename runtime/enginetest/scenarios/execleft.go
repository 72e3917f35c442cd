package scenarios

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"healthd/e2e/patience"
)

// While an output is held open, engines tell seconds later of the ends of other commands, and
// newer ones of the command's own.
func commandAfterHeldOutput(t *testing.T, p Private) {
	e := connect(t, p)
	for name, child := range map[string]string{"a child": "sleep 1111", "one of its own session": "setsid sleep 1111"} {
		t.Run(name, func(t *testing.T) {
			id := p.Run(t, Container{Cmd: idle})
			for i := range 10 {
				began := time.Now()
				argv := []string{"sh", "-c", fmt.Sprintf("%s & exit %d", child, i)}
				_, code, timedOut, err := e.Exec(t.Context(), id, argv, patience.Limit, 100, nil)
				if code != i || timedOut || err != nil {
					t.Errorf("exit code %d, timed out %v, %v, want exit code %d", code, timedOut, err, i)
				}
				if took := time.Since(began); took >= patience.Limit {
					t.Errorf("command %d took %v, as long as its timeout", i, took)
				}
			}
			// Podman tells of the ends nevertheless, so that healthd need not kill any.
			if n := ProcessesRunning(id, "sleep"); n > 2 && p.Name() != podman {
				t.Errorf("%d sleeps are left, so they pile up", n)
			}
		})
	}
}

// Several probes of a container ask at once, and each command holds its output open.
func commandBesideHeldOutputs(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			began := time.Now()
			argv := []string{"sh", "-c", fmt.Sprintf("sleep 1111 & exit %d", i)}
			_, code, timedOut, err := e.Exec(t.Context(), id, argv, patience.Limit, 100, nil)
			if took := time.Since(began); code != i || timedOut || err != nil || took >= patience.Limit {
				t.Errorf("exit code %d, timed out %v, %v after %v, want exit code %d", code, timedOut, err, took, i)
			}
		})
	}
	all.Wait()
}

// What is killed as it delays others is what they wait for, and nothing else.
func commandSparesWhatDelaysNobody(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	do := func(script string, timeout time.Duration) {
		t.Helper()
		if _, code, timedOut, err := e.Exec(t.Context(), id, []string{"sh", "-c", script}, timeout, 100, nil); code != 0 || timedOut || err != nil {
			t.Errorf("%s: exit code %d, timed out %v, %v", script, code, timedOut, err)
		}
	}
	do("nc -l -p 9999 >/dev/null 2>&1 &", time.Minute) // holds no output
	do("tail -f /dev/null &", time.Duration(1<<63-1))  // a hook's
	for range 3 {
		do("sleep 1111 &", time.Minute)
	}
	for program, want := range map[string]int{"nc": 1, "tail": 2} {
		if n := ProcessesRunning(id, program); n != want {
			t.Errorf("%d of %s are there, want %d", n, program, want)
		}
	}
}
