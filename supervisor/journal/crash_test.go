package journal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"healthd/supervisor/core"
)

const crashDir = "HEALTHD_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		rememberUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

// rememberUntilKilled remembers, and prints what is durable, until it is killed.
func rememberUntilKilled(dir string) {
	j, err := Open(Config{Dir: dir, Boot: "boot-1"})
	if err != nil {
		panic(err)
	}
	go j.Run(context.Background())
	for n := len(j.Memories()); ; n++ {
		j.keep(core.Event{Time: time.Unix(int64(n), 0), Message: fmt.Sprint(n)})
		<-j.Remember(remember(fmt.Sprint(n), fmt.Sprint(n)))
		fmt.Println(n)
	}
}

func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last, lines := -1, bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if n == 20*(round+1) {
				cmd.Process.Kill() // and what it still says counts
			}
		}
		cmd.Wait()
		j := open(t, dir)
		known := map[string]bool{}
		for _, m := range j.Memories() {
			known[m.ID] = m.Name == m.ID
		}
		for n := range last + 1 {
			if !known[fmt.Sprint(n)] {
				t.Errorf("round %d: %d of %d was acknowledged and is lost", round, n, last)
			}
		}
		if last < 0 || j.Last() < uint64(last+1) || ownReasons(j) != "" {
			t.Errorf("round %d: %d acknowledged, %d events, %s", round, last, j.Last(), ownReasons(j))
		}
		j.Close()
	}
}
