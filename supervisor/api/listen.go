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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the directory of the control socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w", err)
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
		return fmt.Errorf("cannot remove the stale control socket: %w", err)
	}
	return nil
}
