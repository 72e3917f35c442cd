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

// ListenControl makes the control socket at path, which only root and the group of
// the daemon may use. It takes the place of a socket that nobody answers on any
// more; closing the listener removes it.
func ListenControl(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the control socket: %w", err)
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
		return nil, fmt.Errorf("cannot restrict the control socket: %w", err)
	}
	return ln, nil
}

// removeStale removes a socket that a daemon left behind when it was killed.
func removeStale(path string) error {
	const patience = time.Second
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at the control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on the control socket: %s exists and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, patience)
	if err == nil {
		conn.Close()
		return fmt.Errorf("cannot listen on the control socket: another healthd is running: it answers on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether another healthd is running: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the stale control socket: %w", err)
	}
	return nil
}
