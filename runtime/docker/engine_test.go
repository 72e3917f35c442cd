package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
)

func newEngine(private *dockertest.Engine) (*docker.Engine, error) {
	return docker.New(docker.Config{Endpoint: private.Endpoint})
}

func TestInspectAndListAgree(t *testing.T) {
	e, private := engine(t)
	private.Network(t, "alpha")
	private.Network(t, "beta")
	parent := private.Run(t, dockertest.RunOptions{Name: "parent", Network: "beta", Networks: []string{"alpha"}})
	seconds := 7
	made := map[string]string{"parent": parent}
	for name, o := range map[string]dockertest.RunOptions{
		"bridged": {Labels: map[string]string{"a": "b"}, StopTimeout: &seconds, StopSignal: "QUIT", RestartPolicy: "unless-stopped"},
		"hosted":  {Network: "host", Cmd: []string{"sleep", "1000"}},
		"alone":   {Network: "none"},
		"user":    {Network: "beta"},
		"sharing": {Network: "container:parent", Cmd: []string{"sleep", "1000"}, AutoRemove: true},
		"ended":   {Cmd: []string{"sh", "-c", "exit 3"}},
		"paused":  {},
	} {
		o.Name = name
		made[name] = private.Run(t, o)
	}
	made["created"] = private.Create(t, dockertest.RunOptions{Name: "created"})
	if err := private.Client().ContainerPause(t.Context(), made["paused"]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container ended", func() bool {
		c, err := e.Inspect(t.Context(), made["ended"])
		return err == nil && c.State == runtime.Exited
	})
	got := inspectAll(t, e, made)
	for name, want := range map[string]runtime.Container{
		"bridged": {State: runtime.Running, Network: "bridge", RestartPolicy: "unless-stopped", StopSignal: "QUIT", StopTimeout: 7 * time.Second},
		"hosted":  {State: runtime.Running, Network: "host", Address: "127.0.0.1"},
		"alone":   {State: runtime.Running},
		"user":    {State: runtime.Running, Network: "beta"},
		"parent":  {State: runtime.Running, Network: "alpha"},
		"sharing": {State: runtime.Running, Network: "alpha", Address: got["parent"].Address, NetworkOwner: parent, AutoRemove: true},
		"ended":   {State: runtime.Exited, ExitCode: 3},
		"paused":  {State: runtime.Paused, Network: "bridge"},
		"created": {State: runtime.Created},
	} {
		compareContainer(t, name, got[name], want)
	}
	listMatches(t, e, got)
}

func inspectAll(t *testing.T, e *docker.Engine, ids map[string]string) map[string]*runtime.Container {
	t.Helper()
	got := map[string]*runtime.Container{}
	for name, id := range ids {
		c, err := e.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if (c.Pid > 0) != c.State.Alive() {
			t.Errorf("%s: %s with process %d", name, c.State, c.Pid)
		}
		if c.Name != name || c.ID != id || c.Runtime != "docker" || c.Image != dockertest.Image {
			t.Errorf("%s: got %+v", name, c)
		}
		got[name] = c
	}
	return got
}

func compareContainer(t *testing.T, name string, got *runtime.Container, want runtime.Container) {
	t.Helper()
	if want.RestartPolicy == "" {
		want.RestartPolicy, want.StopTimeout = "no", -1
	}
	if want.Network != "" && want.Address == "" {
		want.Address = got.Address
		if !strings.HasPrefix(got.Address, "10.213.") {
			t.Errorf("%s: got address %q", name, got.Address)
		}
	}
	is := runtime.Container{
		State: got.State, Network: got.Network, Address: got.Address, NetworkOwner: got.NetworkOwner, ExitCode: got.ExitCode,
		AutoRemove: got.AutoRemove, RestartPolicy: got.RestartPolicy, StopSignal: got.StopSignal, StopTimeout: got.StopTimeout,
	}
	if is.State != want.State || is.Network != want.Network || is.Address != want.Address || is.NetworkOwner != want.NetworkOwner ||
		is.ExitCode != want.ExitCode || is.AutoRemove != want.AutoRemove || is.RestartPolicy != want.RestartPolicy ||
		is.StopSignal != want.StopSignal || (is.StopTimeout != want.StopTimeout && want.StopTimeout >= 0) || (want.StopTimeout < 0) != (is.StopTimeout < 0) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, is, want)
	}
}

func listMatches(t *testing.T, e *docker.Engine, got map[string]*runtime.Container) {
	t.Helper()
	list, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range list {
		c := got[s.Name]
		if c == nil {
			continue
		}
		seen++
		if !s.Matches(c) {
			t.Errorf("%s does not fit:\n%+v\n%+v", s.Name, s, c)
		}
		if s.LatestChange.IsZero() != (s.State == runtime.Created) {
			t.Errorf("%s: got bounds %v, %v", s.Name, s.EarliestChange, s.LatestChange)
		}
		old := *c
		old.StartedAt, old.FinishedAt = old.StartedAt.Add(-time.Hour), old.FinishedAt.Add(-time.Hour)
		if s.State != runtime.Created && s.Matches(&old) {
			t.Errorf("%s fits an earlier run", s.Name)
		}
	}
	if seen != len(got) {
		t.Errorf("listed %d of %d", seen, len(got))
	}
}

func TestInspectEnvironmentImageAndLimits(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, dockertest.RunOptions{Env: []string{"SECRET=a=b", "EMPTY="}})
	before, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SECRET=a=b", "EMPTY="} {
		if !slices.Contains(before.Env, want) {
			t.Errorf("%q is not in %q", want, before.Env)
		}
	}
	// The image has its own variables.
	if !slices.ContainsFunc(before.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		t.Errorf("no PATH in %q", before.Env)
	}
	image, err := private.Client().ImageInspect(t.Context(), dockertest.Image)
	if err != nil || before.ImageID != image.ID || before.ImageID == "" {
		t.Errorf("image is %q, want %q, %v", before.ImageID, image.ID, err)
	}
	if before.Resources != "" {
		t.Errorf("limits are %q", before.Resources)
	}
	_, err = private.Client().ContainerUpdate(t.Context(), id, container.UpdateConfig{Resources: container.Resources{CPUShares: 512}})
	if err != nil {
		t.Fatal(err)
	}
	after, err := e.Inspect(t.Context(), id)
	if err != nil || after.Resources != "cpu-shares=512" || after.ImageID != before.ImageID {
		t.Errorf("got %+v, %v", after, err)
	}
}

func TestStopAndStart(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, dockertest.RunOptions{Cmd: []string{"testserver", "-exit-code", "5"}})
	deaf := private.Run(t, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}})
	waitUntilServing(t, e, id)
	for _, tt := range []struct {
		id    string
		grace time.Duration
		code  int
	}{{id, 10 * time.Second, 5}, {id, time.Second, 5}, {deaf, 100 * time.Millisecond, 137}, {deaf, 0, 137}} {
		if err := e.Stop(t.Context(), tt.id, tt.grace); err != nil {
			t.Fatal(err)
		}
		c, err := e.Inspect(t.Context(), tt.id)
		if err != nil || c.State != runtime.Exited || c.ExitCode != tt.code {
			t.Errorf("got %+v, %v; want exit code %d", c, err, tt.code)
		}
	}
	before, _ := e.Inspect(t.Context(), id)
	for range 2 {
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	after, err := e.Inspect(t.Context(), id)
	if err != nil || after.State != runtime.Running || after.Run() == before.Run() {
		t.Errorf("got %+v, %v; want a new run", after, err)
	}
}

func TestNoSuchContainer(t *testing.T) {
	e, _ := engine(t)
	_, inspect := e.Inspect(t.Context(), "nosuch")
	_, _, health := e.Health(t.Context(), "nosuch")
	for what, err := range map[string]error{
		"inspect": inspect, "health": health,
		"start": e.Start(t.Context(), "nosuch"), "stop": e.Stop(t.Context(), "nosuch", time.Second),
	} {
		if !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestHealth(t *testing.T) {
	e, private := engine(t)
	health := func(id string) (string, string) {
		status, output, err := e.Health(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return status, output
	}
	id := private.Run(t, dockertest.RunOptions{Health: &container.HealthConfig{
		Test: []string{"CMD-SHELL", "echo checked; test -e /tmp/ok"}, Interval: time.Second, Timeout: 10 * time.Second, Retries: 1,
	}})
	if status, _ := health(id); status != "starting" {
		t.Errorf("got %s, want starting", status)
	}
	without := private.Run(t, dockertest.RunOptions{Health: &container.HealthConfig{Test: []string{"NONE"}}})
	for id, want := range map[string]bool{id: true, without: false} {
		if c, err := e.Inspect(t.Context(), id); err != nil || c.HasHealthcheck != want {
			t.Errorf("got %+v, %v; want a health check %v", c, err, want)
		}
	}
	eventually(t, "it is unhealthy", func() bool { s, out := health(id); return s == "unhealthy" && out == "checked\n" })
	if _, code, _, err := e.Exec(t.Context(), id, []string{"touch", "/tmp/ok"}, time.Minute, 0, nil); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	eventually(t, "it is healthy", func() bool { s, _ := health(id); return s == "healthy" })
	if status, _ := health(private.Run(t, dockertest.RunOptions{})); status != "none" {
		t.Errorf("got %s, want none", status)
	}
}

func TestNoEngine(t *testing.T) {
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e, err := docker.New(docker.Config{Endpoint: "unix://" + filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Ping(t.Context())
	want := "cannot connect to Docker at unix://" + filepath.Join(dir, "s") + ": there is no such socket; is the engine running?"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := docker.New(docker.Config{Endpoint: "nonsense"}); err == nil {
		t.Error("accepted an endpoint that is none")
	}
}

func TestEndpointFromEnvironment(t *testing.T) {
	_, private := engine(t)
	t.Setenv("DOCKER_HOST", private.Endpoint)
	e, err := docker.New(docker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFrozenEngineDoesNotHoldUpCalls(t *testing.T) {
	private := dockertest.Start(t)
	e := connect(t, private)
	if err := e.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	private.Freeze(t)
	defer private.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if _, err := e.Subscribe(ctx, time.Now()); err == nil {
		t.Error("subscribed to a frozen engine")
	}
}
