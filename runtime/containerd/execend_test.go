package containerd

import (
	"testing"

	"healthd/runtime/containerd/containerdtest"
)

// The answer to a command's start may be lost before the start: there is nothing to kill.
func TestEndOfACommandThatHasNotStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	private := containerdtest.Start(t)
	e, err := New(Config{Endpoint: private.Endpoint, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	x := &execution{engine: e, key: key{defaultNamespace, id}, id: "made", timeout: noTimeout}
	if err := x.create(t.Context(), []string{"true"}, 0); err != nil {
		t.Fatal(err)
	}
	defer x.delete()
	if err := x.end(t.Context()); err != nil {
		t.Error(err)
	}
	ctx := in(t.Context(), defaultNamespace)
	if fate, err := x.ask(ctx); fate != dead || err != nil {
		t.Errorf("its fate is %d, %v; want it gone", fate, err)
	}
}
