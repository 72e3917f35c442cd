package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// config is healthd's configuration; the rest is in the containers' labels.
const config = `%s
[listen]
http    = %q
agent   = %q
control = %q

[haproxy]
sockets = [%q]

[state]
dir = "" # nothing is left behind

[log]
level  = "warn"
format = "json"

[[spec]]
name  = "web"
match = { demo = "web" }

[spec.readiness]
http_get          = { port = 8080, path = "/healthz" }
period            = "1s"
failure_threshold = 1

[spec.liveness]
http_get          = { port = 8080, path = "/healthz" }
period            = "2s"
failure_threshold = 3

[spec.publish]
service = "web"
port    = 8080
drain   = "2s"

[spec.publish.haproxy]
backend = "web"

[[spec]]
name  = "slow"
match = { demo = "slow" }

[spec.startup]
http_get          = { port = 8080, path = "/healthz" }
period            = "1s"
failure_threshold = 60

[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period   = "1s"
`

// hungContainer is the container that hangs, replicas are the others of its service.
const hungContainer = "web-hangs"

var replicas = []string{"web-1", "web-2", "web-3"}

// demo is everything that runs beside the engine.
type demo struct {
	engine  engine
	program string
	dir     string
	config  string
	address string
	haproxy *haproxy
	traffic *traffic
}

func newDemo(dir, program string, engine engine) (*demo, error) {
	address, err := freeAddress("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	agent, err := freeAddress("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &demo{engine: engine, program: program, dir: dir, config: filepath.Join(dir, "healthd.toml"), address: address}
	text := fmt.Sprintf(config, engine.Runtime(), address, agent, filepath.Join(dir, "control.sock"), filepath.Join(dir, haproxySocket))
	return s, os.WriteFile(s.config, []byte(text), 0o600)
}

// run starts HAProxy, healthd and the containers, and shows the table for the given time,
// or until ctx ends when that is zero.
func (s *demo) run(ctx context.Context, length time.Duration) (err error) {
	fmt.Println("Starting a private HAProxy, healthd and the containers …")
	if s.haproxy, err = startHAProxy(ctx, s.dir); err != nil {
		return unlessCancelled(ctx, err)
	}
	defer s.haproxy.process.kill()
	healthd, err := startProcess("healthd", filepath.Join(s.dir, "healthd.log"), s.program, "run", "--config", s.config)
	if err != nil {
		return err
	}
	defer healthd.kill()
	if err := s.startContainers(ctx); err != nil {
		return unlessCancelled(ctx, err)
	}
	if err := healthd.waitReady(ctx, s.allKnown); err != nil {
		return unlessCancelled(ctx, err)
	}
	finish := s.startTraffic()
	if length == 0 {
		err = s.live(ctx, s.header()+"Ctrl-C ends the demo and cleans up.\n")
	} else {
		err = s.unattended(ctx, length)
	}
	finish()
	fmt.Print("\n" + s.traffic.summary())
	if err != nil {
		return err
	}
	if length == 0 {
		if s.recorded() {
			err = s.why()
		}
		return err
	}
	if err := s.checkRecovery(); err != nil {
		return err
	}
	return s.why()
}

// startTraffic sends requests through HAProxy, once it can answer them, and watches the
// states of its servers until finish is called.
func (s *demo) startTraffic() (finish func()) {
	s.traffic = newTraffic(s.haproxy.address)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() {
		s.haproxy.watch(ctx)
		done <- struct{}{}
	}()
	go func() {
		s.traffic.run(ctx, func() bool { return s.haproxy.up(replicas) })
		done <- struct{}{}
	}()
	return func() {
		cancel()
		<-done
		<-done
	}
}

// header explains what the demo shows.
func (s *demo) header() string {
	return fmt.Sprintf("HAProxy listens on http://%[1]s. In another terminal, try: curl http://%[1]s/\n", s.haproxy.address) +
		fmt.Sprintf("Open http://%s/ in a browser: healthd's page.\n", s.address) +
		fmt.Sprintf("healthd listens on http://%s. Try /v1/services/web, /v1/ready/web/%s, /metrics.\n", s.address, hungContainer) +
		fmt.Sprintf("%s hangs 20 seconds after each start. Watch how healthd withdraws and restarts it.\n", hungContainer)
}

// command runs healthd so that the terminal's Ctrl-C does not reach it: the demo handles
// that.
func (s *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, append(args, "--config", s.config)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *demo) startContainers(ctx context.Context) error {
	type one struct {
		name, demo string
		args       []string
	}
	all := []one{
		{"slow", "slow", []string{"-start-delay", "12s"}},
		{hungContainer, "web", []string{"-hang-after", "20s"}},
	}
	for _, name := range replicas {
		all = append(all, one{name: name, demo: "web"})
	}
	for _, c := range all {
		if err := s.engine.Serve(ctx, c.name, map[string]string{"demo": c.demo}, c.args...); err != nil {
			return err
		}
	}
	return nil
}

// allKnown returns nil when healthd knows all of the engine's containers.
func (s *demo) allKnown(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// unattended shows the table every five seconds.
func (s *demo) unattended(ctx context.Context, length time.Duration) error {
	fmt.Println(s.header())
	begun := time.Now()
	end := time.After(length)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		text, err := s.frame(ctx, false)
		if err != nil {
			return unlessCancelled(ctx, err)
		}
		fmt.Printf("after %v:\n%s\n", time.Since(begun).Round(time.Second), text)
		select {
		case <-tick.C:
		case <-end:
			return nil
		case <-ctx.Done():
			return errors.New("interrupted before the end")
		}
	}
}
