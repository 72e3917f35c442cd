package files

import (
	"strings"
	"testing"
)

// A worker tells of a reload only if a master has it that was told to reload: containers may run nginx, too, and start at
// any time.
func TestNewWorkers(t *testing.T) {
	process := func(pid int) nginxProcess { return nginxProcess{pid: pid, started: uint64(pid)} }
	look := func(masters []int, workers map[int]int) nginxLook {
		l := nginxLook{masters: map[nginxProcess]bool{}, workers: map[nginxProcess]nginxProcess{}}
		for _, m := range masters {
			l.masters[process(m)] = true
		}
		for w, m := range workers {
			l.workers[process(w)] = process(m)
		}
		return l
	}
	before := look([]int{10, 20}, map[int]int{11: 10, 21: 20})
	for name, tt := range map[string]struct {
		now  nginxLook
		want bool
	}{
		"nothing":               {before, false},
		"a new one":             {look([]int{10, 20}, map[int]int{11: 10, 12: 10, 21: 20}), true},
		"instead of an old one": {look([]int{10, 20}, map[int]int{12: 10, 21: 20}), true},
		"another nginx starts":  {look([]int{10, 20, 30}, map[int]int{11: 10, 21: 20, 31: 30}), false},
		"one ends":              {look([]int{10}, map[int]int{11: 10}), false},
		"it was restarted":      {look([]int{20, 30}, map[int]int{21: 20, 31: 30}), true},
		"of nobody that is seen": {nginxLook{masters: before.masters,
			workers: map[nginxProcess]nginxProcess{process(99): process(1)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := before.reloaded(&tt.now); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestIsNginx(t *testing.T) {
	for command, want := range map[string]bool{
		"nginx -s reload": true, "/usr/sbin/nginx -s reload": true, "systemctl reload nginx.service": true, "docker exec nginx nginx -s reload": true,
		"caddy reload": false, "ssh balancer nginx -s reload": false, "/usr/bin/ssh balancer systemctl reload nginx": false, "": false,
	} {
		if got := isNginx(strings.Fields(command)); got != want {
			t.Errorf("%q: got %v", command, got)
		}
	}
}

// A container may call a process of its own a master of nginx.
func TestReloadInContainers(t *testing.T) {
	for command, want := range map[string]bool{
		"nginx -s reload": false, "systemctl reload nginx": false, "docker exec nginx nginx -s reload": true,
		"sudo /usr/bin/podman kill -s HUP nginx": true, "nerdctl kill -s HUP nginx": true,
	} {
		if got := inContainers(strings.Fields(command)); got != want {
			t.Errorf("%q: got %v", command, got)
		}
	}
}
