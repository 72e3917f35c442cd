package main

import "testing"

// What ss printed on a host with three containers that have ports of their own.
const printed = `LISTEN    0 4096 127.0.0.1:18000 0.0.0.0:*
ESTAB     0 0 127.0.0.1:40000 127.0.0.1:19000
ESTAB     0 0 127.0.0.1:19000 127.0.0.1:40000
TIME-WAIT 0 0 127.0.0.1:40001 127.0.0.1:20002
TIME-WAIT 0 0 127.0.0.1:20002 127.0.0.1:40002
TIME-WAIT 0 0 127.0.0.1:40003 127.0.0.1:20003
TIME-WAIT 0 0 10.0.0.1:40004 10.0.0.2:19000
SYN-SENT  0 1 127.0.0.1:40001 127.0.0.1:30000
FIN-WAIT-2 0 0 [::ffff:127.0.0.1]:40005 [::ffff:127.0.0.1]:28000
`

func TestCountSockets(t *testing.T) {
	for side, want := range map[string]sockets{
		"dport": {waiting: 1, open: 1, ports: 3}, // port 40001 has two
		"sport": {waiting: 1, open: 1, ports: 2},
	} {
		if got := countSockets(printed, side, 3); got != want {
			t.Errorf("%s: %+v, want %+v", side, got, want)
		}
	}
}
