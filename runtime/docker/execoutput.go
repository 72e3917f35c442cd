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

// reasonMax is what is kept of the engine's own words when it could not start a
// command, whatever output was asked for.
const reasonMax = 1 << 10

// output collects what a command writes. It reads on when it is full, so that
// the command is not held up.
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
	o := &output{done: make(chan struct{}), limit: limit, keep: max(limit, reasonMax)}
	go func() {
		defer close(o.done)
		body, err := x.engine.post(ctx, x.client, "/exec/"+x.id+"/start", container.ExecStartOptions{})
		if err == nil {
			defer body.Close()
			_, err = stdcopy.StdCopy(part{o, &o.stdout}, part{o, &o.stderr}, body)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	}()
	return o
}

// settle waits a moment for output that is on its way, not for who holds the
// stream open.
func (o *output) settle(ctx context.Context) {
	select {
	case <-o.done:
	case <-ctx.Done():
	case <-time.After(outputWait):
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

// reason is what the engine wrote in place of the output of a command that it
// could not start.
func (o *output) reason() string {
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

// part is one of the two streams of an output.
type part struct {
	o   *output
	buf *[]byte
}

func (p part) Write(b []byte) (int, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	*p.buf = append(*p.buf, b[:min(len(b), p.o.keep-len(*p.buf))]...)
	return len(b), nil
}
