package containerdtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"healthd/runtime/enginetest"
)

// cleanUp kills every process of the engine in dir, and removes all that it has made.
func cleanUp(dir string) error {
	claimed, files := enginetest.Claimed(dir), runFiles(dir)
	err := enginetest.CleanUp(dir)
	for _, file := range files {
		err = errors.Join(err, os.RemoveAll(file))
	}
	if len(claimed) < 2 {
		return err
	}
	err = errors.Join(err, enginetest.RemoveBridge(claimed[0]), os.RemoveAll(claimed[1]))
	_ = os.Remove(nerdctlParent) // only when it is empty
	return err
}

// runFiles returns what runc and the shims keep of the engine's tasks in directories that all
// containerds share. They remove it when a task is deleted, but not when they are killed.
func runFiles(dir string) (files []string) {
	const run, tasks = "/run/containerd", "state/io.containerd.runtime.v2.task"
	bundles, _ := filepath.Glob(filepath.Join(dir, tasks, "*", "*"))
	for _, bundle := range bundles {
		namespace, id := filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle)
		files = append(files, filepath.Join(run, "runc", namespace, id))
		address, _ := os.ReadFile(filepath.Join(bundle, "address"))
		if socket, ok := strings.CutPrefix(string(address), "unix://"); ok && filepath.Dir(socket) == filepath.Join(run, "s") {
			files = append(files, socket)
		}
	}
	return files
}
