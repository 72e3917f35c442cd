package hostproc

import (
	"context"
	"errors"
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
	pid, _, err := peerOf(ctx, socket)
	if err != nil || pid == 0 {
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

// peerOf returns the process that listens on a Unix socket, 0 if this one does not see it, and its user.
func peerOf(ctx context.Context, socket string) (pid, uid int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || controlErr != nil {
		return 0, 0, errors.Join(err, controlErr)
	}
	return int(peer.Pid), int(peer.Uid), nil
}
