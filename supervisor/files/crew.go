package files

import (
	"context"
	"maps"
	"sync"

	"healthd/supervisor"
)

// crew is the goroutines of all files: one for each. Only Publisher.Run uses it.
type crew struct {
	p          *Publisher
	board      *supervisor.Board
	goroutines sync.WaitGroup
	all        map[string]*running // by path
	ending     map[string]*running // of files that are not wanted any more, by path
}

// running is a file whose goroutine runs.
type running struct {
	file  *File
	stop  context.CancelFunc
	ended chan struct{}
}

// use has these files written, and no others. One that is the same as before goes on.
func (c *crew) use(ctx context.Context, files []File) {
	next := map[string]*running{}
	paths := []string{}
	for i := range files {
		f := &files[i]
		paths = append(paths, f.Path)
		before := c.all[f.Path]
		if before != nil && before.file.same(f) {
			next[f.Path] = before
			continue
		}
		if before == nil {
			before = c.ending[f.Path]
		}
		next[f.Path] = c.begin(ctx, f, before)
	}
	maps.DeleteFunc(c.ending, func(_ string, r *running) bool { return r.hasEnded() })
	for path, r := range c.all {
		if next[path] != r {
			r.stop()
			c.ending[path] = r
		}
	}
	c.all = next
	c.p.kept.keepOnly(paths)
	c.p.known.configure(files)
	c.p.metrics.files(files)
}

// begin starts the goroutine of a file, after that of the one before it on the same path, if any, has ended.
func (c *crew) begin(ctx context.Context, f *File, before *running) *running {
	own, stop := context.WithCancel(ctx)
	r := &running{file: f, stop: stop, ended: make(chan struct{})}
	c.goroutines.Go(func() {
		defer close(r.ended)
		defer stop()
		if before != nil {
			before.stop()
			<-before.ended
		}
		newFile(c.p, c.board, f).run(own)
		c.p.problems.Set(f.Path)
	})
	return r
}

func (r *running) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
