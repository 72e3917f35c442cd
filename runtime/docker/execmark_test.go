package docker

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"healthd/runtime/hostproc"
)

func TestMark(t *testing.T) {
	e := &Engine{owner: newOwner()}
	for timeout, lasting := range map[time.Duration]bool{time.Second: false, noTimeout: true} {
		text := e.newMark(timeout)
		if m, ok := parseMark(text); !ok || m.owner != e.owner || m.noTimeout != lasting {
			t.Errorf("%s: got %+v, %v", text, m, ok)
		}
		if text == e.newMark(timeout) {
			t.Errorf("%s comes twice", text)
		}
	}
	for _, text := range []string{"", "HEALTHD_EXEC=", "HEALTHD_EXEC=x", "HEALTHD_EXEC=probe:1:x:3:a:b", "HEALTHD_EXEC=probe:1:2:-3:a:b", "HEALTHD_EXEC=other:1:2:3:a:b"} {
		if m, ok := parseMark(text); ok {
			t.Errorf("%q: got %+v", text, m)
		}
	}
}

// Only an owner that could be seen if it were there is known to be gone.
func TestOwnerEnded(t *testing.T) {
	self := newOwner()
	child := exec.Command("sleep", "100")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := hostproc.Read(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	lives := owner{pidNamespace: self.pidNamespace, pid: p.PID, startTime: p.StartTime}
	if lives.ended() {
		t.Error("one that lives is taken for gone")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	for name, tc := range map[string]struct {
		owner owner
		want  bool
	}{
		"gone":              {lives, true},
		"its PID is reused": {owner{pidNamespace: self.pidNamespace, pid: os.Getpid(), startTime: self.startTime + 1}, true},
		"ourselves":         {self, false},
		"elsewhere":         {owner{pidNamespace: "1", pid: p.PID, startTime: p.StartTime}, false},
		"unknown":           {owner{pidNamespace: self.pidNamespace, pid: p.PID}, false},
	} {
		if got := tc.owner.ended(); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
