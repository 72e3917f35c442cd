package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/pkg/cio"
)

// fifoPrefix begins the name of the directory where one healthd has its FIFOs: PID and start
// of its process follow.
const fifoPrefix = "healthd-"

// fifoDir makes FIFOs, in a directory of its own that goes with the process.
type fifoDir struct {
	parent string
	once   sync.Once
	dir    string
}

// path returns the directory. It removes those of processes that are gone: a killed one leaves
// its FIFOs.
func (f *fifoDir) path() string {
	f.once.Do(func() {
		others, _ := filepath.Glob(filepath.Join(f.parent, fifoPrefix+"*-*"))
		for _, other := range others {
			pid, start, _ := strings.Cut(strings.TrimPrefix(filepath.Base(other), fifoPrefix), "-")
			if n, err := strconv.Atoi(pid); err == nil && strconv.FormatUint(ticksOf(n), 10) != start {
				_ = os.RemoveAll(other)
			}
		}
		f.dir = filepath.Join(f.parent, fmt.Sprintf("%s%d-%d", fifoPrefix, os.Getpid(), ticksOf(os.Getpid())))
	})
	return f.dir
}

// remove removes the directory, unless another Engine of the process uses it.
func (f *fifoDir) remove() {
	if f.dir != "" {
		_ = os.Remove(f.dir)
	}
}

// open makes the FIFOs of a command and begins to read them.
func (f *fifoDir) open(id string, limit int) (*output, error) {
	o := &output{done: make(chan struct{}), stdout: bounded{limit: limit}, stderr: bounded{limit: limit}}
	var err error
	// With a buffer each: both are read at once.
	if o.IO, err = cio.NewCreator(cio.WithStreams(nil, &o.stdout, &o.stderr), cio.WithFIFODir(f.path()))(id); err != nil {
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
