package prober

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"healthd/e2e/patience"
)

// insideRole makes the test binary the only process of a container that has a network of
// its own. It says its name, the role's value, to whoever asks.
const insideRole = "PROBER_TEST_INSIDE"

// The ports of that process, in each network.
const (
	insideHTTP  = 8080
	insideHTTPS = 8443
	insideTCP   = 8081
	insideGRPC  = 9000
)

// inside is such a container.
type inside struct {
	id        string
	namespace *Namespace
	stop      func() // kills the process; the namespace stays open
}

var insideCount atomic.Int64

// startInside starts a container that is called name.
func startInside(tb testing.TB, name string) *inside {
	tb.Helper()
	id := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %d", os.Getpid(), insideCount.Add(1))))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideRole+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	leave := joinCgroup(tb, cmd.Process.Pid, id)
	c := &inside{id: id, namespace: NewNamespace(cmd.Process.Pid, id)}
	ended := false
	c.stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = stdin.Close()
			leave()
		}
	}
	tb.Cleanup(func() {
		c.stop()
		c.namespace.Close()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		tb.Fatalf("the process says %q, %v", line, err)
	}
	return c
}

// joinCgroup puts a process into a cgroup of that name.
func joinCgroup(tb testing.TB, pid int, name string) (leave func()) {
	tb.Helper()
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = filepath.Join(root, "pids") // cgroup v1
	}
	dir := filepath.Join(root, "docker-"+name+".scope")
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return func() {
		// The kernel takes a moment to let go of the process.
		patience.Until(tb, "the cgroup is empty", func() error { return os.Remove(dir) })
	}
}

func (c *inside) target() Target {
	return Target{ID: c.id, Namespace: c.namespace}
}

// serveInside is the process. It listens at 127.0.0.1 only.
func serveInside(name string) int {
	if err := loopbackUp(); err != nil {
		return fail(err)
	}
	listen := func(port int) net.Listener {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			os.Exit(fail(err))
		}
		return l
	}
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/slow":
			time.Sleep(50 * time.Millisecond)
			_, _ = io.WriteString(w, name)
		default:
			_, _ = io.WriteString(w, name)
		}
	})
	plain := listen(insideHTTP)
	go func() { _ = http.Serve(plain, web) }()
	secure := httptest.NewUnstartedServer(web)
	_ = secure.Listener.Close()
	secure.Listener, secure.EnableHTTP2 = listen(insideHTTPS), true
	secure.StartTLS()
	tcp := listen(insideTCP)
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	checks, server, rpc := health.NewServer(), grpc.NewServer(), listen(insideGRPC)
	checks.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(rpc) }()
	_, _ = io.WriteString(os.Stdout, "ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func fail(err error) int {
	fmt.Println(err)
	return 1
}

// loopbackUp switches on the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// foreignThreads returns the threads of this process that are in another network namespace
// than it was at first.
func foreignThreads(tb testing.TB) []string {
	tb.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		tb.Fatalf("no threads: %v", err)
	}
	var foreign []string
	for _, task := range tasks {
		if ns, err := os.Readlink(task); err == nil && ns != firstNamespace {
			foreign = append(foreign, task+" "+ns)
		}
	}
	return foreign
}

// firstNamespace is read before any test runs.
var firstNamespace, _ = os.Readlink("/proc/self/ns/net")

// wantAllHome waits until no thread is in another network namespace: a thread that could
// not go back takes a moment to end.
func wantAllHome(tb testing.TB) {
	tb.Helper()
	patience.Until(tb, "all threads are in this network namespace", func() error {
		if foreign := foreignThreads(tb); len(foreign) > 0 {
			return fmt.Errorf("in others: %q", foreign)
		}
		return nil
	})
}

// descriptors returns what this process has open, without the poller's own.
func descriptors(tb testing.TB) int {
	tb.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		tb.Fatal(err)
	}
	open := 0
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			open++
		}
	}
	return open
}
