package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
agent   = ""
control = %q

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

// hung is the container that hangs.
const hung = "web-hangs"

// show is everything of the demo that runs on the engine.
type show struct {
	engine  *dockertest.Engine
	program string
	config  string
	log     string
	address string
}

func newShow(dir, program string, engine *dockertest.Engine) (*show, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	s := &show{
		engine: engine, program: program, address: address,
		config: filepath.Join(dir, "healthd.toml"), log: filepath.Join(dir, "healthd.log"),
	}
	text := fmt.Sprintf(config, engine.Endpoint, address, filepath.Join(dir, "control.sock"))
	return s, os.WriteFile(s.config, []byte(text), 0o600)
}

// play starts healthd and the containers and shows the table, for the time given or,
// when it is zero, until ctx ends.
func (s *show) play(ctx context.Context, length time.Duration) error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	healthd := s.command(context.Background(), "run")
	healthd.Stdout, healthd.Stderr = log, log
	if err := healthd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = healthd.Process.Signal(syscall.SIGTERM)
		_ = healthd.Wait()
	}()
	if err := s.startContainers(ctx); err != nil {
		return quiet(ctx, err)
	}
	if err := s.awaitDaemon(ctx); err != nil {
		return quiet(ctx, err)
	}
	fmt.Printf("healthd listens on http://%s (try /v1/services/web, /v1/ready/web/%s, /metrics).\n", s.address, hung)
	fmt.Printf("%s hangs after 20 seconds: watch it being withdrawn, restarted and come back.\n\n", hung)
	if length == 0 {
		fmt.Println("Ctrl-C ends the demo.")
		return quiet(ctx, s.table(ctx, "--watch"))
	}
	return s.unattended(ctx, length)
}

// quiet makes an end that somebody asked for no error.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// command is a call of healthd out of reach of the terminal's Ctrl-C, which is the
// demo's to handle.
func (s *show) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, append(args, "--config", s.config)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *show) table(ctx context.Context, args ...string) error {
	cmd := s.command(ctx, append([]string{"status"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (s *show) startContainers(ctx context.Context) error {
	for _, c := range []struct {
		name, demo string
		args       []string
	}{
		{"web-1", "web", nil},
		{"web-2", "web", nil},
		{"web-3", "web", nil},
		{"slow", "slow", []string{"-start-delay", "12s"}},
		{hung, "web", []string{"-hang-after", "20s"}},
	} {
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

func (s *show) awaitDaemon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get("http://" + s.address + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(s.log)
			return fmt.Errorf("healthd did not get ready: %v\n%s", err, log)
		}
	}
}

// unattended shows the table every five seconds and then judges by the history.
func (s *show) unattended(ctx context.Context, length time.Duration) error {
	begun := time.Now()
	end := time.After(length)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		fmt.Printf("after %v:\n", time.Since(begun).Round(time.Second))
		if err := s.table(ctx); err != nil {
			return quiet(ctx, err)
		}
		fmt.Println()
		select {
		case <-tick.C:
		case <-end:
			return s.judge()
		case <-ctx.Done():
			return errors.New("interrupted before the end")
		}
	}
}

// judge says whether the history of the hung container tells of a full recovery.
func (s *show) judge() error {
	response, err := http.Get("http://" + s.address + "/v1/events?container=" + hung)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var events []struct {
		Time            time.Time
		Reason, Message string
	}
	if err := json.NewDecoder(response.Body).Decode(&events); err != nil {
		return err
	}
	story := []string{"Ready", "NotReady", "Killing", "Exited", "Started", "Ready"}
	fmt.Printf("What happened to %s:\n", hung)
	for _, e := range events {
		fmt.Printf("  %s  %-10s %s\n", e.Time.Local().Format("15:04:05.000"), e.Reason, e.Message)
		if len(story) > 0 && e.Reason == story[0] {
			story = story[1:]
		}
	}
	if len(story) > 0 {
		return fmt.Errorf("%s was not healed: no %s", hung, story[0])
	}
	fmt.Printf("%s was withdrawn, restarted and came back.\n", hung)
	return nil
}
