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

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// config is what a user would write; the labels of the containers do the rest.
const config = `[[runtime]]
type     = "docker"
endpoint = %q

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

// hung is the container that hangs, replicas are those beside it that do not.
const hung = "web-hangs"

var replicas = []string{"web-1", "web-2", "web-3"}

// show is everything of the demo that runs beside the engine.
type show struct {
	engine  *dockertest.Engine
	program string
	dir     string
	config  string
	address string
	haproxy *haproxy
	traffic *traffic
}

func newShow(dir, program string, engine *dockertest.Engine) (*show, error) {
	address, err := freeAddress("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	agent, err := freeAddress("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &show{engine: engine, program: program, dir: dir, config: filepath.Join(dir, "healthd.toml"), address: address}
	text := fmt.Sprintf(config, engine.Endpoint, address, agent, filepath.Join(dir, "control.sock"), filepath.Join(dir, haproxySocket))
	return s, os.WriteFile(s.config, []byte(text), 0o600)
}

// play starts HAProxy, healthd and the containers and shows the table, for the time
// given or, when it is zero, until ctx ends.
func (s *show) play(ctx context.Context, length time.Duration) (err error) {
	fmt.Println("Starting a private HAProxy, healthd and the containers …")
	if s.haproxy, err = startHAProxy(ctx, s.dir); err != nil {
		return quiet(ctx, err)
	}
	defer s.haproxy.process.end()
	healthd, err := startProcess("healthd", filepath.Join(s.dir, "healthd.log"), s.program, "run", "--config", s.config)
	if err != nil {
		return err
	}
	defer healthd.end()
	if err := s.startContainers(ctx); err != nil {
		return quiet(ctx, err)
	}
	if err := healthd.await(ctx, s.knowsAll); err != nil {
		return quiet(ctx, err)
	}
	finish := s.accompany()
	if length == 0 {
		err = s.live(ctx, s.head()+"Ctrl-C ends the demo and cleans up.\n")
	} else {
		err = s.unattended(ctx, length)
	}
	finish()
	fmt.Print("\n" + s.traffic.summary())
	if err != nil || length == 0 {
		return err
	}
	return s.judge()
}

// accompany sends requests through HAProxy, as soon as it can answer them, and watches
// what it shows, until finish is called.
func (s *show) accompany() (finish func()) {
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

// head says what there is to see.
func (s *show) head() string {
	return fmt.Sprintf("HAProxy listens on http://%[1]s. In another terminal, try: curl http://%[1]s/\n", s.haproxy.address) +
		fmt.Sprintf("healthd listens on http://%s. Try /v1/services/web, /v1/ready/web/%s, /metrics.\n", s.address, hung) +
		fmt.Sprintf("%s hangs 20 seconds after each start. Watch how healthd withdraws and restarts it.\n", hung)
}

// command is a call of healthd out of reach of the terminal's Ctrl-C, which is the
// demo's to handle.
func (s *show) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, append(args, "--config", s.config)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *show) startContainers(ctx context.Context) error {
	type one struct {
		name, demo string
		args       []string
	}
	all := []one{
		{"slow", "slow", []string{"-start-delay", "12s"}},
		{hung, "web", []string{"-hang-after", "20s"}},
	}
	for _, name := range replicas {
		all = append(all, one{name: name, demo: "web"})
	}
	for _, c := range all {
		created, err := s.engine.Client().ContainerCreate(ctx, &container.Config{
			Image: s.engine.Image, Cmd: append([]string{"/bin/testserver"}, c.args...), Labels: map[string]string{"demo": c.demo},
		}, nil, nil, nil, c.name)
		if err == nil {
			err = s.engine.Client().ContainerStart(ctx, created.ID, container.StartOptions{})
		}
		if err != nil {
			return fmt.Errorf("cannot start container %s: %w", c.name, err)
		}
	}
	return nil
}

// knowsAll says whether healthd knows the engine's containers.
func (s *show) knowsAll(ctx context.Context) error {
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
func (s *show) unattended(ctx context.Context, length time.Duration) error {
	fmt.Println(s.head())
	begun := time.Now()
	end := time.After(length)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		text, err := s.frame(ctx, false)
		if err != nil {
			return quiet(ctx, err)
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
