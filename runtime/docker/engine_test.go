package docker_test

import (
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
	"healthd/runtime/enginetest/scenarios"
)

func TestNetworks(t *testing.T) {
	e, private := engine(t)
	private.Network(t, "alpha")
	private.Network(t, "beta")
	parent := private.Run(t, dockertest.RunOptions{Name: "two", Network: "beta", Networks: []string{"alpha"}})
	made := map[string]string{"two": parent}
	for name, network := range map[string]string{"bridged": "", "user": "beta", "shared": "container:two"} {
		made[name] = private.Run(t, dockertest.RunOptions{Name: name, Network: network, Cmd: []string{"sleep", "1000"}})
	}
	private.Pause(t, made["bridged"])
	got := map[string]*runtime.Container{}
	for name, id := range made {
		c, err := e.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(c.Address, "10.213.") && !dockertest.Podman() {
			t.Errorf("%s: got address %q", name, c.Address)
		}
		got[name] = c
	}
	for name, want := range map[string]runtime.Container{
		"bridged": {State: runtime.Paused, Network: private.Bridge, Address: got["bridged"].Address},
		"user":    {State: runtime.Running, Network: "beta", Address: got["user"].Address},
		"two":     {State: runtime.Running, Network: "alpha", Address: got["two"].Address},
		"shared":  {State: runtime.Running, Network: "alpha", Address: got["two"].Address, NetworkOwner: parent},
	} {
		want.Name, want.ID, want.Runtime, want.Image = name, made[name], engineName(), imageName()
		scenarios.CompareContainer(t, got[name], want)
	}
	scenarios.ListMatches(t, e, got)
}

func TestInspectImageAndLimits(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, dockertest.RunOptions{Health: &container.HealthConfig{Test: []string{"NONE"}}})
	before, err := e.Inspect(t.Context(), id)
	dockertest.PodmanCannot(t, "its containers have a limit of processes by default, and 4.3 cannot change any")
	if err != nil || before.HasHealthcheck || before.Resources != "" {
		t.Errorf("got %+v, %v", before, err)
	}
	image, err := private.Client().ImageInspect(t.Context(), dockertest.Image)
	if err != nil || before.ImageID != image.ID || before.ImageID == "" {
		t.Errorf("image is %q, want %q, %v", before.ImageID, image.ID, err)
	}
	_, err = private.Client().ContainerUpdate(t.Context(), id, container.UpdateConfig{Resources: container.Resources{CPUShares: 512}})
	must(t, err)
	after, err := e.Inspect(t.Context(), id)
	if err != nil || after.Resources != "cpu-shares=512" || after.ImageID != before.ImageID {
		t.Errorf("got %+v, %v", after, err)
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

// What a container was made with is told as the engine has it, with its defaults left out.
func TestCreationOfAContainer(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, dockertest.RunOptions{Health: &container.HealthConfig{Test: []string{"CMD", "true"}, Interval: time.Minute, Retries: 7}})
	made, err := e.Creation(t.Context(), id)
	if h := made.Healthcheck; err != nil || h == nil || !slices.Equal(h.Test, []string{"CMD", "true"}) || h.Interval != time.Minute || h.Retries != 7 {
		t.Errorf("%+v, %v", made, err)
	}
	if _, err := e.Creation(t.Context(), strings.Repeat("0", 64)); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}
