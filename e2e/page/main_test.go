package page

import (
	"os"
	"testing"

	"healthd/e2e/harness"
	"healthd/supervisor/api/page/chromiumtest"
)

func TestMain(m *testing.M) {
	code := harness.MainOfRingTwo(m, "make test-page")
	chromiumtest.Close()
	os.Exit(code)
}
