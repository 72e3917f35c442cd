// Package browser has the tests of the page that drive Chromium. They are apart from it, so that its other tests need neither
// Chromium nor the module that drives it.
package browser_test

import (
	"flag"
	"os"
	"testing"

	"healthd/supervisor/api/page/chromiumtest"
)

var update = flag.Bool("update", false, "write the screenshots of the documents")

func TestMain(m *testing.M) {
	code := m.Run()
	chromiumtest.Close()
	os.Exit(code)
}
