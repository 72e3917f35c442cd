package containerdtest_test

import (
	"os"
	"testing"

	"healthd/runtime/containerd/containerdtest"
)

func TestContainersSurviveRestartAndCleanUpIsComplete(t *testing.T) {
	var dir string
	t.Run("use", func(t *testing.T) {
		e := containerdtest.Start(t)
		dir = e.Path()
		id := e.Run(t, containerdtest.RunOptions{Name: "web"})
		before := e.Task(t, id).Pid()
		for name, down := range map[string]func(testing.TB){"kill": e.Kill, "stop": e.Stop} {
			down(t)
			e.Up(t)
			if after := e.Task(t, id).Pid(); after != before {
				t.Errorf("after %s: got process %d, want %d", name, after, before)
			}
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
