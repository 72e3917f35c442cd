package enginetest

import (
	"strings"
	"testing"

	"healthd/e2e/patience"
)

// Pause has an engine pause a container. On a busy host the kernel may not get hold of all processes in the moment that
// runc gives it. The engine then refuses, and the container runs on.
func Pause(tb testing.TB, name string, pause func() error) {
	tb.Helper()
	patience.Until(tb, name+" is paused", func() error {
		tb.Helper()
		err := pause()
		if err != nil && !strings.Contains(err.Error(), "unable to freeze") {
			tb.Fatalf("cannot pause %s: %v", name, err)
		}
		return err
	})
}
