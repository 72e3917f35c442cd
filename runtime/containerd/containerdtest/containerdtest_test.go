package containerdtest_test

import (
	"os"
	"testing"

	"healthd/runtime/containerd/containerdtest"
)

func TestContainersSurviveRestartAndCleanUpIsComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	var traces []string
	t.Run("use", func(t *testing.T) {
		e := containerdtest.Start(t)
		id := e.Run(t, containerdtest.RunOptions{Name: "web", Network: containerdtest.Bridge})
		traces = e.Traces()
		for _, trace := range traces {
			if _, err := os.Stat(trace); err != nil {
				t.Errorf("what should be gone later is not there: %v", err)
			}
		}
		before := e.Task(t, id).Pid()
		for name, down := range map[string]func(testing.TB){"kill": e.Kill, "stop": e.Stop} {
			down(t)
			e.Up(t)
			if after := e.Task(t, id).Pid(); after != before {
				t.Errorf("after %s: got process %d, want %d", name, after, before)
			}
		}
	})
	for _, trace := range traces {
		if _, err := os.Stat(trace); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", trace, err)
		}
	}
}
