package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// notify reports to systemd: READY when the supervisor's loop answers, STATUS when it changes,
// WATCHDOG while the loop answers, STOPPING when ctx has ended. It returns when serving ends. READY
// does not wait for the engines: a boot must not hang for one.
func (d *daemon) notify(ctx, serving context.Context) {
	const beforeSync, afterSync = 50 * time.Millisecond, time.Second
	ticker := time.NewTicker(beforeSync)
	defer ticker.Stop()
	watchdog, stopWatchdog := d.watchdog()
	defer stopWatchdog()
	ready, synced, stopping := false, false, ctx.Done()
	memory, bootTaken := newGarbage(), map[string]bool{}
	for {
		if !ready && d.answers(serving, beforeSync) {
			d.notifier.setStatus(d.statusText())
			ready = d.notifier.started()
		}
		select {
		case <-serving.Done():
			return
		case <-stopping:
			stopping = nil
			d.notifier.send(systemd.SdNotifyStopping)
			continue
		case <-watchdog:
			d.feedWatchdog(serving)
			continue
		case <-ticker.C:
		}
		if !synced && d.supervisor.Board().Synced() {
			synced = true
			ticker.Reset(afterSync)
			d.reportSync()
		}
		d.acknowledgeBoots(serving, bootTaken)
		if synced {
			memory.adjust(time.Now())
		}
		d.notifier.setStatus(d.statusText())
	}
}

// answers says whether the supervisor's loop answers in this time.
func (d *daemon) answers(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return d.supervisor.Ping(ctx) == nil
}

// notifier sends messages to systemd, if it listens, and keeps the last status.
type notifier struct {
	log  *zap.Logger
	deaf atomic.Bool // systemd has not got the last message

	mu      sync.Mutex
	ready   bool
	status  string
	refused string // why the last reload changed nothing; empty when it did
}

// started reports READY for the first time, and says whether systemd was told: it kills a daemon
// of which it does not hear that. The status comes first: systemctl returns with the READY.
func (n *notifier) started() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = n.send(systemd.SdNotifyReady)
	return n.ready
}

// maxStatus keeps a status, in characters of up to four bytes, within the 4096 bytes beyond which
// systemd ignores a message.
const maxStatus = 1000

// setStatus reports the status if it is not what systemd was told last.
func (n *notifier) setStatus(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused != "" {
		status += "; " + n.refused
	}
	status = shorten(status, maxStatus)
	if status != n.status && n.send("STATUS="+status) {
		n.status = status
	}
}

// reloading reports that a reload begins, but not before the daemon is ready: systemd would
// take the READY at the end of the reload for the daemon's.
func (n *notifier) reloading() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready {
		n.send(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
	}
}

// reloadDone reports the end of a reload, and in the status why it was refused, unless that
// is empty. The status comes first: systemctl returns with the READY.
func (n *notifier) reloadDone(status, refused string) {
	n.mu.Lock()
	n.refused = refused
	ready := n.ready
	n.mu.Unlock()
	if ready {
		n.setStatus(status)
		n.send(systemd.SdNotifyReady)
	}
}

// send sends one message, if systemd listens, and says whether it has got it. go-systemd's SdNotify
// blocks for ever when nobody reads the socket, and would keep the daemon from ending.
func (n *notifier) send(state string) bool {
	const patience = time.Second
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return true
	}
	if err := send(path, state, patience); err != nil {
		if !n.deaf.Swap(true) { // what is tried again would fill the log
			n.log.Warn("cannot notify systemd", zap.String("state", state), zap.Error(err))
		}
		return false
	}
	n.deaf.Store(false)
	return true
}

func send(path, state string, timeout time.Duration) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// watchdogPeriod is half of systemd's watchdog timeout; 0 without a watchdog.
func (d *daemon) watchdogPeriod() time.Duration {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		d.log.Warn("cannot use the watchdog of systemd", zap.Error(err))
		return 0
	}
	return interval / 2
}

func (d *daemon) watchdog() (tick <-chan time.Time, stop func()) {
	period := d.watchdogPeriod()
	if period <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(period)
	return ticker.C, ticker.Stop
}

// feedWatchdog reports WATCHDOG when the supervisor's loop answers.
func (d *daemon) feedWatchdog(serving context.Context) {
	ctx, cancel := context.WithTimeout(serving, max(d.watchdogPeriod(), time.Millisecond))
	defer cancel()
	if err := d.supervisor.Ping(ctx); err != nil {
		d.log.Warn("the main loop does not answer", zap.Error(err))
		return
	}
	d.notifier.send(systemd.SdNotifyWatchdog)
}

// reportSync logs what the first sync found. A spec that matches nothing may be a mistake.
func (d *daemon) reportSync() {
	views := d.supervisor.Board().Views()
	d.log.Info("all containers are known", zap.Int("supervised", len(views)))
	for _, name := range d.config.Load().OwnSpecNames() {
		used := slices.ContainsFunc(views, func(v *core.View) bool { return v.Spec != nil && v.Spec.Name == name })
		if !used {
			d.log.Info("no container matches the spec so far", zap.String("spec", name))
		}
	}
}

// statusText is the status for systemctl status.
func (d *daemon) statusText() string {
	board := d.supervisor.Board()
	text := waitingLine(board.Runtimes())
	if board.Synced() || text == "" {
		text = statusLine(board.Counts())
	}
	text += lostLine(board.Runtimes())
	if problem := d.journal.Problem(); problem != "" {
		text += "; " + shorten(line(problem), maxStatusPart)
	}
	if control := d.begun.Listen.Control; isGone(control) {
		text += "; the control socket " + control + " is gone: systemctl restart healthd"
	}
	return text
}

// isGone says that somebody has removed what was at path.
func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// maxStatusPart bounds what a status tells of one engine or problem, in characters.
const maxStatusPart = 300

// waitingLine says which engines have not told their containers yet.
func waitingLine(all []supervisor.RuntimeView) string {
	var texts []string
	for _, r := range all {
		if r.Synced {
			continue
		}
		text := r.Name
		if r.Err != nil {
			text += ": " + line(r.Err.Error())
		}
		texts = append(texts, shorten(text, maxStatusPart))
	}
	if len(texts) == 0 {
		return ""
	}
	return "waiting for " + strings.Join(texts, "; ")
}

// lostLine says which engines are away that were there.
func lostLine(all []supervisor.RuntimeView) string {
	text := ""
	for _, r := range all {
		if r.Synced && !r.Up && r.Err != nil {
			text += "; " + shorten("cannot reach "+r.Name+": "+line(r.Err.Error()), maxStatusPart)
		}
	}
	return text
}

// statusLine tells how many containers there are.
func statusLine(c supervisor.Counts) string {
	text := fmt.Sprintf("%s, %d ready, %d restarting", plural(c.All, "container"), c.Ready, c.Restarting)
	if c.Held > 0 {
		text += fmt.Sprintf(", %d held", c.Held)
	}
	if c.GaveUp > 0 {
		text += fmt.Sprintf(", %d given up", c.GaveUp)
	}
	if c.Invalid > 0 {
		text += fmt.Sprintf(", %d invalid", c.Invalid)
	}
	return text
}
