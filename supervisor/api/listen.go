package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ListenControl makes the control socket at path, which only root and the daemon's group may
// use. It replaces the socket of a daemon that was killed, and returns an error when
// another daemon answers there. Closing the listener removes the socket.
func ListenControl(path string) (net.Listener, error) {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("cannot create the directory of the control socket: %w%s", err, remedy(path, err))
	}
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w%s", err, remedy(path, err))
	}
	if err := os.Chmod(path, 0o660); err != nil {
		ln.Close()
		return nil, fmt.Errorf("cannot set the mode of the control socket: %w", err)
	}
	return ln, nil
}

// removeStale removes the socket of a daemon that was killed.
func removeStale(path string) error {
	const dialTimeout = time.Second
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot inspect the control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on the control socket: %s is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		conn.Close()
		return fmt.Errorf("cannot listen on the control socket: another healthd answers on %s: stop it or change listen.control", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether another healthd is running: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the stale control socket: %w%s", err, remedy(path, err))
	}
	return nil
}

// makeDir makes the directory of the socket. The unit's UMask would keep its group out.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// remedy says what to do about a place where healthd may not make a socket.
func remedy(path string, err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf(": leave listen.control in /run/healthd, or make %s and write [Service] ReadWritePaths=%[1]s with systemctl edit healthd", filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf(": leave listen.control in /run/healthd, or give %s to the user that healthd runs as", filepath.Dir(path))
	}
	return ""
}
