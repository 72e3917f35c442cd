package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"healthd/supervisor/core"
)

// notify tells systemd how the daemon is: READY after the first full sync, STATUS
// when it changes, WATCHDOG after a message has gone round the supervisor's loop,
// STOPPING when ctx has ended. It goes on until serving ends.
func (d *daemon) notify(ctx, serving context.Context) {
	const beforeSync, afterSync = 50 * time.Millisecond, time.Second
	ticker := time.NewTicker(beforeSync)
	defer ticker.Stop()
	watchdog, stopWatchdog := d.watchdog()
	defer stopWatchdog()
	synced, stopping := false, ctx.Done()
	for {
		select {
		case <-serving.Done():
			return
		case <-stopping:
			stopping = nil
			d.notifier.tell(systemd.SdNotifyStopping)
			continue
		case <-watchdog:
			d.feedWatchdog(serving)
			continue
		case <-ticker.C:
		}
		if !synced {
			if synced = d.supervisor.Board().Synced(); !synced {
				continue
			}
			ticker.Reset(afterSync)
			d.reportSync()
			d.takeBoot(serving)
			d.notifier.started()
		}
		d.notifier.says(statusLine(d.supervisor.Board().Views()))
	}
}

// notifier tells systemd, if it is there, and knows what it has told.
type notifier struct {
	log *zap.Logger

	mu      sync.Mutex
	ready   bool
	status  string
	refused string // why the last reload changed nothing; empty when it did
}

// started says that the daemon is ready for the first time.
func (n *notifier) started() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = true
	n.tell(systemd.SdNotifyReady)
}

// says tells how things are if that has changed.
func (n *notifier) says(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused != "" {
		status += "; " + n.refused
	}
	if status != n.status {
		n.status = status
		n.tell("STATUS=" + status)
	}
}

// reloading says that a reload begins. Systemd does not hear of one before the
// daemon is ready: the READY that ends it would be taken for that.
func (n *notifier) reloading() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready {
		n.tell(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
	}
}

// reloaded says that the reload is over, and that it was refused unless that is
// empty, before systemctl can return.
func (n *notifier) reloaded(status, refused string) {
	n.mu.Lock()
	n.refused = refused
	ready := n.ready
	n.mu.Unlock()
	if ready {
		n.says(status)
		n.tell(systemd.SdNotifyReady)
	}
}

// tell sends one message. It is not go-systemd's SdNotify because that waits for
// ever when nobody reads the socket, and a daemon that is told to end could not.
func (n *notifier) tell(state string) {
	const patience = time.Second
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := send(path, state, patience); err != nil {
		n.log.Warn("cannot notify systemd", zap.String("state", state), zap.Error(err))
	}
}

func send(path, state string, patience time.Duration) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// watchdogPeriod is how often systemd wants to hear of us, halved; 0 if never.
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

// feedWatchdog says that the daemon is alive if its loop turns.
func (d *daemon) feedWatchdog(serving context.Context) {
	ctx, cancel := context.WithTimeout(serving, max(d.watchdogPeriod(), time.Millisecond))
	defer cancel()
	if err := d.supervisor.Ping(ctx); err != nil {
		d.log.Warn("the main loop does not answer", zap.Error(err))
		return
	}
	d.notifier.tell(systemd.SdNotifyWatchdog)
}

// reportSync says what was found. A spec that matches nothing may be a slip.
func (d *daemon) reportSync() {
	views := d.supervisor.Board().Views()
	d.log.Info("all containers are known", zap.Int("supervised", len(views)))
	for _, name := range d.config.Load().SpecNames() {
		used := slices.ContainsFunc(views, func(v *core.View) bool { return v.Spec != nil && v.Spec.Name == name })
		if !used {
			d.log.Info("no container matches the spec so far", zap.String("spec", name))
		}
	}
}

// statusLine says how things are, for systemctl status.
func statusLine(views []*core.View) string {
	ready, restarting, held, invalid := 0, 0, 0, 0
	for _, v := range views {
		s := &v.State
		if ok, _, _ := v.Readiness(); ok {
			ready++
		}
		if s.Action.Stopping != core.NoCause || s.Action.Restart != core.NoCause || s.Action.Call != core.NoCall {
			restarting++
		}
		if s.Lasting.Held {
			held++
		}
		if v.Invalid != "" {
			invalid++
		}
	}
	text := fmt.Sprintf("%s, %d ready, %d restarting", count(len(views), "container"), ready, restarting)
	if held > 0 {
		text += fmt.Sprintf(", %d held", held)
	}
	if invalid > 0 {
		text += fmt.Sprintf(", %d invalid", invalid)
	}
	return text
}
