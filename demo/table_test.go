package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTableShowsHAProxyStates(t *testing.T) {
	const status = `NAME       SERVICE  STATE             READY  RESTARTS  STARTUP     LIVENESS  READINESS  SINCE
slow       slow     Running           no     0         fail 12/60  -         pending    11s
web-1      web      Running           yes    0         -           ok        ok         10s
web-hangs  web      CrashLoopBackOff  no     2         -           fail 1/3  failed     -

web-1 waits: for something
`
	const want = `NAME       STATE             READY  HAPROXY       RESTARTS  STARTUP     LIVENESS  READINESS  SINCE
slow       Running           no     -             0         fail 12/60  -         pending    11s
web-1      Running           yes    UP            0         -           ok        ok         10s
web-hangs  CrashLoopBackOff  no     DOWN (agent)  2         -           fail 1/3  failed     -

web-1 waits: for something
`
	states := map[string]string{"web-1": "UP", "web-hangs": "DOWN (agent)"}
	got := addColumn(status, states, false)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	const nothing = "no container is known yet: starting\n"
	if got := addColumn(nothing, states, false); got != nothing {
		t.Errorf("got %q, want %q", got, nothing)
	}
}

func TestReadStates(t *testing.T) {
	got, err := readStates("# pxname,svname,status,weight,\nweb,web-1,UP,100,\nweb,web-2,UP,0,\nweb,web-3,DOWN (agent),100,\n\n")
	if err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{"web-1": "UP", "web-2": "UP 0%", "web-3": "DOWN (agent)"} {
		if got[server] != want {
			t.Errorf("%s: got %q, want %q", server, got[server], want)
		}
	}
	if _, err := readStates("No such proxy.\n\n"); err == nil {
		t.Error("got no error for what is no table")
	}
}
