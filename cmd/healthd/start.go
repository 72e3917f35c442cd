package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/supervisor/files"
	"healthd/supervisor/fleet"
	"healthd/supervisor/haproxy"
	"healthd/supervisor/journal"
)

// setupError is why the daemon cannot start until somebody mends what it names. Trying again would
// not help: the unit does not restart healthd after it.
type setupError struct{ error }

// Unwrap returns the cause.
func (e setupError) Unwrap() error { return e.error }

// underSystemd says that systemd started this process as a service and listens to it.
func underSystemd() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// opened is what the daemon has open before it runs.
type opened struct {
	listeners *listeners
	journal   *journal.Journal
	engines   []*engine
	haproxy   *haproxy.HAProxy
	files     []files.File
	fleet     *fleet.Fleet // nil: none
	boot      string
}

func (o *opened) close() {
	closeEngines(o.engines)
	if o.journal != nil {
		_ = o.journal.Close()
	}
	if o.listeners != nil {
		o.listeners.close()
	}
}

// open opens everything, or nothing.
func open(c *configs.Config, log *zap.Logger) (_ *opened, err error) {
	o := &opened{boot: bootID()}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.files, err = filesOf(c); err != nil {
		return nil, setupError{err}
	}
	if o.listeners, err = listen(c); err != nil {
		return nil, err
	}
	if o.journal, err = journal.Open(journal.Config{Dir: c.State.Dir, Boot: o.boot}); err != nil {
		return nil, fmt.Errorf("cannot keep the journal: %w", err)
	}
	if o.engines, err = openEngines(c, log); err != nil {
		return nil, setupError{err}
	}
	if o.haproxy, err = haproxy.New(haproxy.Config{Sockets: c.HAProxy.Sockets, Agent: address(o.listeners.agent), Journal: o.journal}); err != nil {
		return nil, setupError{err}
	}
	if o.fleet, err = openFleet(c, o.haproxy, o.journal, o.boot, log); err != nil {
		return nil, err
	}
	return o, nil
}

// needsMending says that a start fails again until somebody mends the configuration or rights. What
// another program holds, or an address that the host does not have yet, may come by itself.
func needsMending(err error) bool {
	_, setup := errors.AsType[setupError](err)
	return setup || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// A start that fails is tried again after pauses of startPause, twice that and so on, for
// startPatience, which is less than the unit's TimeoutStartSec: nothing that waits for the start,
// such as a boot, hangs. Then systemd begins anew.
const (
	startPause    = time.Second
	maxStartPause = 15 * time.Second
	startPatience = time.Minute
)

// starter opens what the daemon needs. Under systemd it tries again.
type starter struct {
	open     func() (*opened, error)
	notifier *notifier
	log      *zap.Logger
	systemd  bool
	failed   startMark
}

// start returns nil without an error if ctx ends before something is open. The first failure ends
// it at once, so that whoever ran systemctl start is told; when systemd tries again, it is patient.
func (s *starter) start(ctx context.Context) (*opened, error) {
	end := time.Now().Add(startPatience)
	for pause := startPause; ; pause = min(2*pause, maxStartPause) {
		o, err := s.open()
		if err == nil {
			s.failed.clear()
			return o, nil
		}
		text := line(err.Error())
		if needsMending(err) {
			s.notifier.setStatus(text + " (then: systemctl restart healthd)")
			return nil, setupError{err}
		}
		again := s.failed.isSet()
		s.failed.set()
		if !s.systemd || !again || time.Now().Add(pause).After(end) {
			s.notifier.setStatus(text)
			return nil, err
		}
		if pause == startPause {
			s.log.Error("healthd cannot start, and tries again for a while", zap.Error(err))
		}
		s.notifier.setStatus(fmt.Sprintf("%s (healthd tries again in %v)", text, pause))
		select {
		case <-ctx.Done():
			s.failed.clear()
			return nil, nil
		case <-time.After(pause):
		}
	}
}

// startMark is the path of a file that is there while starts fail; empty: nothing is remembered.
type startMark string

// newStartMark returns the mark in the directory that systemd makes for the service.
func newStartMark() startMark {
	if dir := runtimeDir(); dir != "" {
		return startMark(filepath.Join(dir, "start-failed"))
	}
	return ""
}

// runtimeDir returns the directory below /run that systemd makes for the service; empty: there is none.
func runtimeDir() string {
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

func (m startMark) isSet() bool {
	_, err := os.Stat(string(m))
	return m != "" && err == nil
}

func (m startMark) set() {
	if m != "" {
		_ = os.WriteFile(string(m), nil, 0o600)
	}
}

func (m startMark) clear() {
	if m != "" {
		_ = os.Remove(string(m))
	}
}

// leveled puts the level in front of each line, as the journal reads it from stderr. Each Write has
// whole lines.
type leveled struct{ to io.Writer }

// Write implements io.Writer.
func (l leveled) Write(p []byte) (int, error) {
	if _, err := l.to.Write(append([]byte("<3>"), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
