package containerd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/sys/unix"
)

// fifoPrefix begins the name of the directory where one Engine has its FIFOs.
const fifoPrefix = "healthd-"

// fifoDir makes FIFOs, in a directory of its own. A lock on it shows others that it is in use: a
// healthd in a container does not see the processes of others.
type fifoDir struct {
	parent string
	mu     sync.Mutex
	lock   *os.File // the directory; nil: there is none yet
}

// path returns the directory. The first call removes those that a killed healthd has left.
func (f *fifoDir) path() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock != nil {
		return f.lock.Name(), nil
	}
	if err := os.MkdirAll(f.parent, 0o700); err != nil {
		return "", err
	}
	f.removeLeft()
	for {
		dir, err := os.MkdirTemp(f.parent, fifoPrefix)
		if err != nil {
			return "", err
		}
		if f.lock = lockDir(dir); f.lock != nil {
			return dir, nil
		}
	}
}

// removeLeft removes the FIFOs that a killed healthd has left. It reads from each: a shim that
// waits for a reader answers no question about its container.
func (f *fifoDir) removeLeft() {
	others, _ := filepath.Glob(filepath.Join(f.parent, fifoPrefix+"*"))
	for _, other := range others {
		if lock := lockDir(other); lock != nil {
			readers := openReaders(other)
			_ = os.RemoveAll(other)
			for _, fd := range readers {
				_ = unix.Close(fd)
			}
			_ = lock.Close()
		}
	}
}

// openReaders opens all FIFOs in a directory, without waiting for those who write.
func openReaders(dir string) (fds []int) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeNamedPipe {
			return nil
		}
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			fds = append(fds, fd)
		}
		return nil
	})
	return fds
}

// lockDir locks a directory. It returns nil if somebody else has locked or removed it.
func lockDir(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		opened, err := f.Stat()
		if now, gone := os.Stat(dir); err == nil && gone == nil && os.SameFile(opened, now) {
			return f
		}
	}
	_ = f.Close()
	return nil
}

// remove removes the directory.
func (f *fifoDir) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock != nil {
		_ = os.RemoveAll(f.lock.Name())
		_ = f.lock.Close()
		f.lock = nil
	}
}

// open makes the FIFOs of a command and begins to read them.
func (f *fifoDir) open(id string, limit int) (*output, error) {
	dir, err := f.path()
	if err != nil {
		return nil, fmt.Errorf("cannot make FIFOs for its output: %w", err)
	}
	o := &output{done: make(chan struct{}), stdout: bounded{limit: limit}, stderr: bounded{limit: limit}}
	// With a buffer each: both are read at once.
	if o.IO, err = cio.NewCreator(cio.WithStreams(nil, &o.stdout, &o.stderr), cio.WithFIFODir(dir))(id); err != nil {
		return nil, fmt.Errorf("cannot make FIFOs for its output: %w", err)
	}
	go func() {
		defer close(o.done)
		o.Wait()
	}()
	return o, nil
}

// output collects what a command writes. It reads on when it is full, so that the command does
// not block.
type output struct {
	cio.IO
	done           chan struct{} // closed at the end of both streams
	stdout, stderr bounded
}

func (o *output) bytes() []byte {
	all := slices.Concat(o.stdout.bytes(), o.stderr.bytes())
	return all[:min(len(all), o.stdout.limit)]
}

func (o *output) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// waitForRest waits a moment for output that was written but not yet read, and says whether
// all was read.
func (o *output) waitForRest() bool {
	timer := time.NewTimer(outputRestTimeout)
	defer timer.Stop()
	select {
	case <-o.done:
		return true
	case <-timer.C:
		return false
	}
}

// close ends the reading and removes the FIFOs.
func (o *output) close() {
	o.Cancel()
	<-o.done
	_ = o.Close()
}

// bounded keeps the first bytes written to it.
type bounded struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, p[:min(len(p), max(b.limit-len(b.kept), 0))]...)
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.kept)
}
