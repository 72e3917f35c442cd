package chaos

import (
	"os"
	"testing"

	"healthd/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.MainOfRingTwo(m, "make test-chaos")) }
