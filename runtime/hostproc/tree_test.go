package hostproc

import "testing"

func TestParseStat(t *testing.T) {
	stat := "42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1000 1 0"
	p, err := parseStat(42, []byte(stat))
	if err != nil || p != (Proc{PID: 42, PPID: 7, Session: 41, State: 'S', StartTime: 12345}) {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := parseStat(42, []byte("42 (x")); err == nil {
		t.Error("accepted what is cut off")
	}
}
