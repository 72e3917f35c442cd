package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

// failure says in plain words why the engine did not answer. Errors that are an
// answer are returned as they are.
func (e *Engine) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot get an answer from Docker at %s in time: %w", e.endpoint(), err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot connect to Docker at %s: permission denied; is healthd allowed to use the socket?", e.endpoint())
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("cannot connect to Docker at %s: %w", e.endpoint(), e.reason(err))
	}
	return err
}

// reason undoes the client's advice to people who type commands.
func (e *Engine) reason(err error) error {
	path, ok := strings.CutPrefix(e.endpoint(), "unix://")
	if !ok {
		return err
	}
	if _, stat := os.Stat(path); errors.Is(stat, fs.ErrNotExist) {
		return errors.New("there is no such socket; is the engine running?")
	}
	if strings.Contains(err.Error(), "Is the docker daemon running") {
		return errors.New("connection refused; is the engine running?")
	}
	return err
}

// about wraps err with what could not be done to a container.
func (e *Engine) about(err error, doing, id string) error {
	if err == nil {
		return nil
	}
	// A proxy that has nothing there answers the same status: the engine says what.
	if errdefs.IsNotFound(err) && !errors.Is(err, runtime.ErrNotFound) && strings.Contains(strings.ToLower(err.Error()), "no such") {
		err = runtime.ErrNotFound
	}
	return fmt.Errorf("cannot %s container %s: %w", doing, short(id), e.failure(err))
}

func short(id string) string {
	if len(id) == 64 {
		return id[:12]
	}
	return id
}
