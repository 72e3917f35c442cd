package files

import (
	"context"
	"errors"
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

// isNginx says whether a command is about nginx on this host: that of another one starts no workers here.
func isNginx(command []string) bool {
	return len(command) > 0 && filepath.Base(command[0]) != "ssh" && slices.ContainsFunc(command, func(word string) bool {
		name := filepath.Base(word)
		return name == "nginx" || name == "nginx.service"
	})
}

// inContainers says whether a command is about nginx in a container.
func inContainers(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		return slices.Contains([]string{"docker", "podman", "nerdctl", "ctr", "crictl"}, filepath.Base(word))
	})
}

// nginxProcess is a process, and no other one that has its number later.
type nginxProcess struct {
	pid     int
	started uint64
}

// nginxLook is what /proc shows of nginx, on the host and in containers.
type nginxLook struct {
	masters map[nginxProcess]bool
	workers map[nginxProcess]nginxProcess // that take new connections, with their masters
}

// reloaded says that a master which was there before, or one that came in place of another, has a worker that was not. A new
// nginx that starts beside them tells nothing.
func (before *nginxLook) reloaded(now *nginxLook) bool {
	replaced := false
	for m := range before.masters {
		replaced = replaced || !now.masters[m]
	}
	for w, master := range now.workers {
		if _, old := before.workers[w]; !old && (before.masters[master] || replaced && now.masters[master]) {
			return true
		}
	}
	return false
}

// lookAtNginx looks at all processes that healthd sees, for a reload by that command. Processes of containers call themselves what they
// like: they count where it is about containers. In a container it sees none of nginx. In the unit it does: ProtectProc
// hides nothing from root's group.
func lookAtNginx(command []string) nginxLook {
	look := nginxLook{masters: map[nginxProcess]bool{}, workers: map[nginxProcess]nginxProcess{}}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return look
	}
	masters, parents := map[int]nginxProcess{}, map[nginxProcess]int{}
	withContainers := inContainers(command)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		title := titleOf(pid)
		master := strings.HasPrefix(title, "nginx: master process")
		if !master && (!strings.HasPrefix(title, "nginx: worker process") || strings.Contains(title, "shutting down")) {
			continue
		}
		p, err := hostproc.Read(pid)
		if err != nil {
			continue
		}
		if process := (nginxProcess{pid, p.StartTime}); master {
			if withContainers || !hostproc.InAnyContainer(pid) {
				masters[pid], look.masters[process] = process, true
			}
		} else {
			parents[process] = p.PPID
		}
	}
	for worker, parent := range parents {
		if master, ok := masters[parent]; ok {
			look.workers[worker] = master
		}
	}
	return look
}

// titleOf returns the begin of a process's command line.
func titleOf(pid int) string {
	const most = 64
	return hostproc.CommandLine(pid, most)
}

// awaitWorkers waits until nginx has reloaded.
func (p *Publisher) awaitWorkers(ctx context.Context, command []string, before nginxLook) error {
	const firstPause, lastPause = 10 * time.Millisecond, 200 * time.Millisecond
	end := time.Now().Add(nginxWait)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if now := p.workers(command); before.reloaded(&now) {
			return nil
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
