package hostproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Bounds of what is read of processes, in bytes. Containers shape most of it.
const (
	maxStat        = 4 << 10 // a name of 16 bytes, and numbers
	maxCgroup      = 64 << 10
	maxMounts      = 16 << 20
	maxEnviron     = 8 << 20 // Linux lets exec give no more than 6 MiB
	maxMark        = 4 << 10
	maxDescriptors = 64 << 10 // that are looked at

	// memoryPatience is how long a read of a process's memory may take. The kernel lets it wait for locks that the process
	// can hold for ever.
	memoryPatience = time.Second
	// mostBlocked are read at once although they have been waited for in vain: each takes a thread.
	mostBlocked = 256
)

var (
	errTooLong = errors.New("is longer than it may be")
	errBlocked = errors.New("the kernel does not answer")
)

// readFile returns what is in a file of /proc, and an error if that is more than so many bytes.
func readFile(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		return nil, fmt.Errorf("%s %w", path, errTooLong)
	}
	return b, err
}

// blockedReads are the files that could not be read in time, and whose reads have not ended yet.
type blockedReads struct {
	mu    sync.Mutex
	paths map[string]bool
}

var blocked = blockedReads{paths: map[string]bool{}}

// refuses says that a read of the file would only block one more thread.
func (b *blockedReads) refuses(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths[path] || len(b.paths) >= mostBlocked
}

func (b *blockedReads) set(path string, isBlocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.paths, path); isBlocked {
		b.paths[path] = true
	}
}

// fromMemory reads a file that the kernel takes from the memory of a process, such as /proc/PID/environ. A read that
// blocks is left behind: nothing can end it but its process.
func fromMemory[T any](path string, read func(io.Reader) T) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if blocked.refuses(path) {
		return none, errBlocked
	}
	answers, gaveUp := make(chan answer), make(chan struct{})
	go func() {
		var a answer
		f, err := os.Open(path) // may block, too
		if a.err = err; err == nil {
			a.value = read(f)
			f.Close()
		}
		select {
		case answers <- a:
		case <-gaveUp:
			blocked.set(path, false)
		}
	}()
	for range 2 { // healthd itself may not have run meanwhile: then the answer is there after the first half
		half := time.NewTimer(memoryPatience / 2)
		select {
		case a := <-answers:
			half.Stop()
			return a.value, a.err
		case <-half.C:
		}
	}
	blocked.set(path, true)
	close(gaveUp)
	return none, errBlocked
}
