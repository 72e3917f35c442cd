package docker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// startErrorMax bounds the engine's message about a command that it could not start, in
// bytes, where the caller wants less output.
const startErrorMax = 1 << 10

// output collects what a command writes. It reads on when it is full, so that the
// command does not block.
type output struct {
	done chan struct{} // closed at the end of the stream

	mu             sync.Mutex
	limit          int // of bytes
	keep           int // of each stream
	stdout, stderr []byte
	err            error
}

// start asks the engine to run the command, and returns at once.
func (x *execution) start(ctx context.Context, limit int) *output {
	o := &output{done: make(chan struct{}), limit: limit, keep: max(limit, startErrorMax)}
	go func() {
		defer close(o.done)
		body, err := x.engine.post(ctx, x.client, "/exec/"+x.id+"/start", container.ExecStartOptions{})
		if err == nil {
			defer body.Close()
			_, err = stdcopy.StdCopy(streamWriter{o, &o.stdout}, streamWriter{o, &o.stderr}, body)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	}()
	return o
}

// waitForRest waits for output that was written but not yet read, not for background
// processes that hold the stream open.
func (o *output) waitForRest(ctx context.Context) {
	select {
	case <-o.done:
	case <-ctx.Done():
	case <-time.After(outputRestTimeout):
	}
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Concat(o.stdout, o.stderr)
	return all[:min(len(all), o.limit)]
}

// failed returns why the stream ended, and nil when it ended well or not yet.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// startError returns the engine's message about a command that it could not start. The
// engine sends it as the command's output.
func (o *output) startError() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := strings.TrimSpace(string(o.stdout)); s != "" {
		return s
	}
	if o.err != nil {
		return o.err.Error()
	}
	return errNotStarted.Error()
}

// streamWriter appends to one of the two streams of an output.
type streamWriter struct {
	o   *output
	buf *[]byte
}

func (p streamWriter) Write(b []byte) (int, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	*p.buf = append(*p.buf, b[:min(len(b), p.o.keep-len(*p.buf))]...)
	return len(b), nil
}
