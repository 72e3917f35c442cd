package hostproc

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer returns the name of the program that listens on a Unix socket, which it may choose itself, and whether it has this
// process' network namespace. The name is empty where this process may not look, and where the socket is another PID
// namespace's.
func Peer(ctx context.Context, socket string) (program string, sameNetwork bool) {
	pid := listener(ctx, socket)
	if pid == 0 {
		return "", false
	}
	name, err := readFile(fmt.Sprintf("/proc/%d/comm", pid), maxCgroup)
	of, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	own, err3 := os.Readlink("/proc/self/ns/net")
	if err != nil || err2 != nil || err3 != nil {
		return "", false
	}
	return strings.TrimSpace(string(name)), of == own
}

// listener returns the process that listens on a Unix socket; 0: this one does not see it.
func listener(ctx context.Context, socket string) int {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
