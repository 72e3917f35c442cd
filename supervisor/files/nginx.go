package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"healthd/runtime/hostproc"
)

// nginxWait is how long new workers may take after a reload.
const nginxWait = 2 * time.Second

// errNoWorkers is why a reload of nginx failed that seemed to succeed: nginx -s reload ends well as soon as it has sent its
// signal.
var errNoWorkers = errors.New("nginx has started no new workers: its error log says why")

// isNginx says whether a command is about nginx.
func isNginx(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		name := filepath.Base(word)
		return name == "nginx" || name == "nginx.service"
	})
}

// nginxWorker is a worker process, and no other one that has its number later.
type nginxWorker struct {
	pid     int
	started uint64
}

// nginxLook is what /proc shows of nginx.
type nginxLook struct {
	masters int
	workers map[nginxWorker]bool // that take new connections
}

// lookAtNginx looks at all processes that healthd sees. In a container it sees none of nginx. In the unit it does: ProtectProc
// hides nothing from root's group.
func lookAtNginx() nginxLook {
	look := nginxLook{workers: map[nginxWorker]bool{}}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return look
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		title := titleOf(pid)
		switch {
		case strings.HasPrefix(title, "nginx: master process"):
			look.masters++
		case strings.HasPrefix(title, "nginx: worker process") && !strings.Contains(title, "shutting down"):
			if p, err := hostproc.Read(pid); err == nil {
				look.workers[nginxWorker{pid, p.StartTime}] = true
			}
		}
	}
	return look
}

// titleOf returns the begin of a process's command line.
func titleOf(pid int) string {
	const most = 64
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return string(text)
}

// awaitWorkers waits until nginx has a worker that was not there before.
func (p *Publisher) awaitWorkers(ctx context.Context, before nginxLook) error {
	const firstPause, lastPause = 10 * time.Millisecond, 200 * time.Millisecond
	end := time.Now().Add(nginxWait)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		for w := range p.workers().workers {
			if !before.workers[w] {
				return nil
			}
		}
		if time.Now().After(end) {
			return errNoWorkers
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
