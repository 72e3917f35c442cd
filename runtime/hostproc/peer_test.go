package hostproc

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// peerRole has the test binary listen at that socket until its standard input ends.
const peerRole = "HOSTPROC_TEST_PEER"

func TestMain(m *testing.M) {
	socket := os.Getenv(peerRole)
	if socket == "" {
		os.Exit(m.Run())
	}
	if _, err := net.Listen("unix", socket); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

func TestPeer(t *testing.T) {
	for name, tt := range map[string]struct {
		flags       uintptr
		program     string
		sameNetwork bool
	}{
		"beside":               {0, "hostproc.test", true},
		"in another network":   {syscall.CLONE_NEWNET, "hostproc.test", false},
		"nothing listens here": {},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			if tt.program != "" {
				listenAt(t, socket, tt.flags)
			}
			var fs unix.Statfs_t
			_ = unix.Statfs(t.TempDir(), &fs)
			certain := tt.program != "" && fs.Type != unix.OVERLAYFS_SUPER_MAGIC
			if here, sure := ListensHere(socket); sure && here != tt.sameNetwork || sure != certain {
				t.Errorf("listens here: %v, sure: %v", here, sure)
			}
			program, same := Peer(t.Context(), socket)
			if program != tt.program || same != tt.sameNetwork {
				t.Errorf("%q %v, want %q %v", program, same, tt.program, tt.sameNetwork)
			}
		})
	}
}

func listenAt(t *testing.T, socket string, flags uintptr) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerRole+"="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
}
