package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Namespace is the network namespace of one run of a container. healthd enters it through
// the container's main process, and holds a descriptor of that process from the first
// socket to Close. Such a descriptor never comes to stand for another process, and does
// not keep the namespace alive. Any number of goroutines may use a Namespace.
type Namespace struct {
	pid       int
	container string
	barred    error // why nobody can enter it; nil: the rights are there

	mu      sync.Mutex // guards process and endSeen
	process int        // pidfd; -1: not opened
	endSeen time.Time  // when a probe first found the process ended
	closed  atomic.Bool
}

// NewNamespace returns the network namespace of a container, by the ID of its main process
// on this host and the container's full ID. It opens nothing yet. A pid of 0 means that
// the engine is on another host: nobody can enter the namespace.
func NewNamespace(pid int, container string) *Namespace {
	return &Namespace{pid: pid, container: container, process: -1}
}

// BarredNamespace returns one that healthd lacks the rights to enter. why says what it needs.
func BarredNamespace(why string) *Namespace {
	return &Namespace{process: -1, barred: cannotEnter(why)}
}

// Close lets go of the process. Sockets that are open stay so; no more can be opened.
// Close never waits.
func (n *Namespace) Close() {
	n.closed.Store(true)
	n.letGo()
}

// letGo closes the process's descriptor after Close. Whoever holds the lock meanwhile calls
// letGo after unlocking.
func (n *Namespace) letGo() {
	if !n.closed.Load() || !n.mu.TryLock() {
		return
	}
	defer n.mu.Unlock()
	if n.process >= 0 {
		_ = unix.Close(n.process)
		n.process = -1
	}
}

// notEnterable returns why nobody can enter the namespace, as far as that is known without
// trying it.
func (n *Namespace) notEnterable() error {
	switch {
	case n == nil:
		return ErrOtherHost
	case n.barred != nil:
		return n.barred
	case n.pid <= 0:
		return ErrOtherHost
	}
	return nil
}

// cannotEnter is why healthd cannot enter a namespace. Like a lack of descriptors it says
// nothing about the container.
type cannotEnter string

// Error implements error.
func (c cannotEnter) Error() string {
	return "cannot enter the container's network namespace: " + string(c)
}

const (
	// ErrOtherHost is why nobody can enter the namespace of a container without a PID here.
	ErrOtherHost = cannotEnter("its engine is on another host")

	errOver = cannotEnter("its run has ended")
	needs   = " (healthd needs CAP_SYS_ADMIN and CAP_SYS_PTRACE; as a service, the drop-in namespaces.conf)"
)

// errEnded is why nobody answers in a namespace whose container has ended. Unlike cannotEnter it
// is the container's Failure: while the engine is away, only the probe sees the end.
var errEnded = errors.New("the container's main process has ended")

// endPatience is how long the engine may take to tell of an end. A probe must not forestall it:
// a container that ends by itself has failed no probe.
const endPatience = 2 * time.Second

// end returns why a container cannot be asked whose process has ended.
func (n *Namespace) end() error {
	if n.endSeen.IsZero() {
		n.endSeen = time.Now()
	}
	if time.Since(n.endSeen) < endPatience {
		return errOver
	}
	return errEnded
}

// socket opens a non-blocking TCP socket of a family inside the namespace.
func (n *Namespace) socket(family int) (int, error) {
	defer n.letGo()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return -1, err
	}
	own, err := ownNamespace()
	if err != nil {
		return -1, err
	}
	fd, err := visit(n.enter, own, family)
	switch {
	case !errors.Is(err, unix.ESRCH):
		return fd, err
	case hasEnded(n.process):
		return -1, n.end()
	}
	return -1, cannotEnter("its main process is ending, or only other threads of it run")
}

// open opens the process's descriptor, unless that is done. It looks whose the process is
// after that: if the engine's answer is old, the PID may belong to another one by now.
func (n *Namespace) open() error {
	switch {
	case n.closed.Load():
		return errOver
	case n.process >= 0:
		return nil
	}
	fd, err := unix.PidfdOpen(n.pid, 0)
	if err == nil {
		err = n.checkProcess(fd)
	}
	switch {
	case err == nil:
		n.process = fd
		return nil
	case fd >= 0:
		_ = unix.Close(fd)
	}
	switch _, known := errors.AsType[cannotEnter](err); {
	case known:
		return err
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT):
		return cannotEnter(fmt.Sprintf("process %d is not there; it has just ended, or healthd does not see the host's processes (--pid=host)", n.pid))
	}
	return cannotEnter(fmt.Sprintf("cannot open process %d: %v", n.pid, err))
}

// checkProcess returns nil if the process of a pidfd is the container's.
func (n *Namespace) checkProcess(fd int) error {
	// A /proc that was mounted from another PID namespace shows others under these PIDs.
	if shown, err := shownPID(fd); err != nil || shown != n.pid {
		return cmp.Or(err, error(unix.ESRCH))
	}
	in, err := inContainer(n.pid, n.container)
	switch {
	case err != nil || in:
		return err
	case hasEnded(fd):
		return errOver
	}
	return cannotEnter(fmt.Sprintf("process %d is another container's or host's", n.pid))
}

// shownPID returns the PID under which /proc shows the process of a pidfd, and -1 if that
// has ended.
func shownPID(fd int) (int, error) {
	b, err := readProc(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if pid, ok := strings.CutPrefix(line, "Pid:"); ok {
			return strconv.Atoi(strings.TrimSpace(pid))
		}
	}
	return 0, errors.New("its descriptor does not tell its PID")
}

// readProc reads a file of /proc that is short, and that the kernel makes without asking the process.
func readProc(path string) ([]byte, error) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// inContainer says whether a process is in the container: its cgroup's path has a part
// such as ID or docker-ID.scope.
func inContainer(pid int, container string) (bool, error) {
	b, err := readProc(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || container == "" {
		return false, err
	}
	for part := range strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == '/' || r == '\n' }) {
		if part == container || strings.HasSuffix(part, "-"+container+".scope") {
			return true, nil
		}
	}
	return false, nil
}

// enter moves the thread into the namespace.
func (n *Namespace) enter() error {
	err := unix.Setns(n.process, unix.CLONE_NEWNET)
	if errors.Is(err, unix.EINVAL) {
		err = n.enterByPath() // Linux before 5.8
	}
	return err
}

// enterByPath is enter where setns(2) does not take a pidfd.
func (n *Namespace) enterByPath() error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", n.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return unix.ESRCH
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// As long as the process has not ended, its PID is no other's.
	if hasEnded(n.process) {
		return unix.ESRCH
	}
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// hasEnded says whether the process of a pidfd has ended.
func hasEnded(process int) bool {
	poll := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	for {
		ended, err := unix.Poll(poll, 0)
		if !errors.Is(err, unix.EINTR) {
			return ended != 0 || err != nil
		}
	}
}

// ownNamespace is healthd's own network namespace, which is that of the whole process. It
// stays open as long as the process runs.
var ownNamespace = sync.OnceValues(func() (int, error) {
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, cannotEnter(fmt.Sprintf("cannot open healthd's own one: %v", err))
	}
	return fd, nil
})

// visit calls enter, opens a socket and goes back to the namespace own, all on one thread.
// If the way back fails, the goroutine stays locked to the thread, and Go ends the thread
// with it.
func visit(enter func() error, own, family int) (int, error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		return visitElsewhere(enter, own, family)
	}
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return -1, enterError(err)
	}
	fd, err := socket(family)
	if unix.Setns(own, unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return fd, err
}

// visitElsewhere is visit for a goroutine that is locked to the main thread, which Go
// never ends: another goroutine gets another thread.
func visitElsewhere(enter func() error, own, family int) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		fd, err = visit(enter, own, family)
		close(done)
	}()
	<-done
	return fd, err
}

func enterError(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return err
	}
	why := err.Error()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		why += needs
	}
	return cannotEnter(why)
}

// CanEnterNamespaces returns nil if healthd may open sockets inside other network
// namespaces, and otherwise why not.
func CanEnterNamespaces() error {
	own, err := ownNamespace()
	if err != nil {
		return err
	}
	fd, err := visit(func() error { return unix.Setns(own, unix.CLONE_NEWNET) }, own, unix.AF_INET)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	process, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return cannotEnter(fmt.Sprintf("cannot open processes: %v", err))
	}
	_ = unix.Close(process)
	// Without CAP_SYS_PTRACE, healthd may enter only through processes of its own user.
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return cannotEnter(fmt.Sprintf("cannot read healthd's capabilities: %v", err))
	}
	if data[0].Effective&(1<<unix.CAP_SYS_PTRACE) == 0 {
		return cannotEnter("healthd has no CAP_SYS_PTRACE")
	}
	return nil
}

// dial connects to an address, HOST:PORT, inside the namespace. A name is resolved on the
// host.
func (n *Namespace) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return n.dialAny(ctx, addrs, uint16(number))
}

// dialAny connects to the first address that accepts, and otherwise returns the first error that
// says something: where IPv6 is switched off, that of ::1 does not.
func (n *Namespace) dialAny(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	var first error
	for _, a := range addrs {
		c, err := n.connect(ctx, netip.AddrPortFrom(a.Unmap(), port))
		if err == nil {
			return c, nil
		}
		if first == nil || errors.Is(first, unix.EADDRNOTAVAIL) {
			first = err
		}
	}
	return nil, first
}

func (n *Namespace) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	c, err := n.tryConnect(ctx, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return c, nil
}

func (n *Namespace) tryConnect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if to.Addr().Zone() != "" {
		return nil, cannotEnter("healthd does not know the zones there")
	}
	sa := sockaddr(to)
	fd, err := startConnect(endpoint{sa: sa, inside: n})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	deadline, _ := ctx.Deadline()
	if err := awaitConnect(ctx, f, sa, deadline); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return net.FileConn(f)
}
