package journal

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// residentPages returns how many kB of a file this process has in memory.
func residentPages(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total, ours := 0, false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if first, _, _ := strings.Cut(line, " "); strings.Contains(first, "-") {
			ours = strings.HasSuffix(line, path)
		}
		var kB int
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kB); n == 1 && ours {
			total += kB
		}
	}
	return total
}

// A large journal takes no memory between two transactions, and loses nothing by that.
func TestPagesAreReleased(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	j := open(t, dir)
	const containers = 3000
	name := strings.Repeat("n", 1000)
	write := func(turn int) {
		for i := range containers {
			j.Remember(remember(fmt.Sprintf("%d-%d", i, turn%2), name))
		}
		if err := j.transact(j.takePending()); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	j.releasedAt = time.Now().Add(time.Hour) // nothing is released
	write(1)
	before := residentPages(t, path)
	j.releasedAt = time.Time{}
	j.SetSeen("docker", time.Now())
	if err := j.transact(j.takePending()); err != nil {
		t.Fatal(err)
	}
	if after := residentPages(t, path); before < 1000 || after > before/10 {
		t.Errorf("%d kB of the file are in memory, before that %d", after, before)
	}
	write(2)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(open(t, dir).Memories()); got != 2*containers {
		t.Errorf("%d memories are in the file, want %d", got, 2*containers)
	}
}
