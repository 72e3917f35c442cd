package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what waits for the reader of the log.
const (
	maxQueuedLines = 8192
	maxQueuedBytes = 4 << 20
)

// logPatience is how long the end of healthd waits until the rest of the log is read. A pipe takes 64 KiB at once: only
// a reader that has hung for long leaves a rest.
const logPatience = 2 * time.Second

// logQueue is between the log and where it goes. No call that logs waits for a reader, nor ends with it. What finds
// no room, or cannot be written, is dropped and counted; a note of it stands where it would stand.
type logQueue struct {
	note    func(lost int) error
	dropped atomic.Uint64 // lines, since the start
	told    atomic.Uint64 // of them, by note
	ended   chan struct{}

	mu     sync.Mutex
	more   *sync.Cond
	lines  []queuedLine
	bytes  int // of lines
	untold int // dropped after the newest of lines
	closed bool
}

// queuedLine is one line, or one that flush waits for.
type queuedLine struct {
	write   func() error // nil: nothing
	size    int
	lost    int             // dropped right before it
	written chan<- struct{} // closed after it; nil: nothing waits
}

// newLogQueue starts a queue; close ends it. note writes that so many lines were lost.
func newLogQueue(note func(lost int) error) *logQueue {
	q := &logQueue{note: note, ended: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	go func() {
		defer close(q.ended)
		q.run()
	}()
	return q
}

// put has write called after all that was put before, or drops it. It never waits.
func (q *logQueue) put(size int, write func() error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.lines) >= maxQueuedLines || q.bytes+size > maxQueuedBytes {
		q.untold++
		q.dropped.Add(1)
		return
	}
	q.bytes += size
	q.append(queuedLine{write: write, size: size})
}

// append needs mu.
func (q *logQueue) append(l queuedLine) {
	l.lost, q.untold = q.untold, 0
	q.lines = append(q.lines, l)
	q.more.Signal()
}

// flush waits until all that was put before is written or dropped, most at most.
func (q *logQueue) flush(most time.Duration) error {
	written := make(chan struct{})
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.append(queuedLine{written: written})
	q.mu.Unlock()
	return waitFor(written, most)
}

// close is flush, and ends the queue. A write that hangs ends with the process.
func (q *logQueue) close(most time.Duration) error {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	return waitFor(q.ended, most)
}

func waitFor(done <-chan struct{}, most time.Duration) error {
	select {
	case <-done:
		return nil
	case <-time.After(most):
		return os.ErrDeadlineExceeded
	}
}

func (q *logQueue) run() {
	lost := 0
	for l, ok := q.next(); ok; l, ok = q.next() {
		if lost += l.lost; lost > 0 && q.note(lost) == nil {
			q.told.Add(uint64(lost))
			lost = 0
		}
		switch {
		case l.write == nil:
		case lost > 0, l.write() != nil: // the note comes first
			lost++
			q.dropped.Add(1)
		}
		if l.written != nil {
			close(l.written)
		}
	}
}

// next waits for a line, or for the loss of some. It is not ok at the end.
func (q *logQueue) next() (l queuedLine, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 {
		if q.untold > 0 {
			l.lost, q.untold = q.untold, 0
			return l, true
		}
		if q.closed {
			return l, false
		}
		q.more.Wait()
	}
	l, q.lines[0] = q.lines[0], queuedLine{}
	q.lines = q.lines[1:]
	q.bytes -= l.size
	return l, true
}

// problem says how many lines are lost without a note so far; empty: none.
func (q *logQueue) problem() string {
	told := q.told.Load() // before dropped, which is never less
	lost := q.dropped.Load() - told
	if lost == 0 {
		return ""
	}
	return fmt.Sprintf("healthd's log loses lines, %d so far: what reads it hangs, or is gone", lost)
}

// lossText says what the queue has dropped.
func lossText(lost int) string {
	return fmt.Sprintf("what reads healthd's log did not keep up, or was away: %s lost", plural(lost, "line"))
}

// queuedWriter is a zapcore.WriteSyncer that puts lines for another writer.
type queuedWriter struct {
	*logQueue
	to io.Writer
}

// Write implements io.Writer. It never fails.
func (w queuedWriter) Write(p []byte) (int, error) {
	text := bytes.Clone(p) // zap uses it again
	w.put(len(text), func() error {
		_, err := w.to.Write(text)
		return err
	})
	return len(p), nil
}

// Sync implements zapcore.WriteSyncer.
func (w queuedWriter) Sync() error { return w.flush(logPatience) }
