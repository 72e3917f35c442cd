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

// notify reports to systemd: READY after the first full sync, STATUS when it changes,
// WATCHDOG when the supervisor's loop answers, STOPPING when ctx has ended. It returns when
// serving ends.
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
			d.notifier.send(systemd.SdNotifyStopping)
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
			d.acknowledgeBoot(serving)
			d.notifier.started()
		}
		d.notifier.setStatus(statusLine(d.supervisor.Board().Views()))
	}
}

// notifier sends messages to systemd, if it listens, and keeps the last status.
type notifier struct {
	log *zap.Logger

	mu      sync.Mutex
	ready   bool
	status  string
	refused string // why the last reload changed nothing; empty when it did
}

// started reports READY for the first time.
func (n *notifier) started() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = true
	n.send(systemd.SdNotifyReady)
}

// setStatus reports the status if it has changed.
func (n *notifier) setStatus(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused != "" {
		status += "; " + n.refused
	}
	if status != n.status {
		n.status = status
		n.send("STATUS=" + status)
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

// send sends one message. go-systemd's SdNotify blocks for ever when nobody reads the
// socket, and would keep the daemon from ending.
func (n *notifier) send(state string) {
	const patience = time.Second
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := send(path, state, patience); err != nil {
		n.log.Warn("cannot notify systemd", zap.String("state", state), zap.Error(err))
	}
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

// statusLine is the status for systemctl status.
func statusLine(views []*core.View) string {
	ready, restarting, held, gaveUp, invalid := 0, 0, 0, 0, 0
	for _, v := range views {
		s := &v.State
		if ok, _, _ := v.Readiness(); ok {
			ready++
		}
		if s.Action.GaveUp {
			gaveUp++
		} else if s.Action.Stopping != core.NoCause || s.Action.Restart != core.NoCause || s.Action.Call != core.NoCall {
			restarting++
		}
		if s.Lasting.Held {
			held++
		}
		if v.Invalid != "" {
			invalid++
		}
	}
	text := fmt.Sprintf("%s, %d ready, %d restarting", plural(len(views), "container"), ready, restarting)
	if held > 0 {
		text += fmt.Sprintf(", %d held", held)
	}
	if gaveUp > 0 {
		text += fmt.Sprintf(", %d given up", gaveUp)
	}
	if invalid > 0 {
		text += fmt.Sprintf(", %d invalid", invalid)
	}
	return text
}
