package hostproc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"healthd/e2e/patience"
)

func TestRow(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var row []string
	patience.Until(t, "the process has its arguments", func() error { // after fork and exec, in parts
		if row = Row(cmd.Process.Pid); row == nil || !strings.Contains(row[6], "sleep 1000") {
			return fmt.Errorf("it is shown as %q", row)
		}
		return nil
	})
	if len(row) != len(Titles()) {
		t.Fatalf("got %q for %q", row, Titles())
	}
	for i, want := range map[int]string{0: strconv.Itoa(cmd.Process.Pid), 1: strconv.Itoa(os.Getpid()), 4: "00:00:00"} {
		if row[i] != want {
			t.Errorf("%s is %q, want %q", Titles()[i], row[i], want)
		}
	}
	if n, err := strconv.Atoi(row[3]); err != nil || n < 0 {
		t.Errorf("RSS is %q", row[3])
	}
	if row := Row(1 << 30); row != nil {
		t.Errorf("a process that does not exist: %q", row)
	}
}

// A process chooses its name.
func TestStatFields(t *testing.T) {
	name, fields := statFields([]byte("7 (a) S (b) S 1 7 7 0 -1 4194560 1 2 3 4 50 7 0 0 20 0 1 0 12345 2461696 321 18446744073709551615"))
	if name != "a) S (b" || fields[21] != "321" || cpuTime(fields) != "00:00:00" {
		t.Errorf("got %q %q", name, fields)
	}
	if name, fields := statFields([]byte("7 (x) S 1")); name != "x" || !slices.Contains(fields, "0") || len(fields) < 22 {
		t.Errorf("got %q %q", name, fields)
	}
}
