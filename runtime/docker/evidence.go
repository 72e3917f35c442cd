package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

// maxLogRead bounds what is read of a log, in bytes. Engines count the pieces of a line without end
// as lines, of 16 kB each, so that 200 of these fit. Podman counts whole lines: of such a log, what
// was read first is kept.
const maxLogRead = 8 << 20

// psColumns are those of ps that tell what a process does.
const psColumns = "-eo pid,ppid,stat,rss,etime,time,wchan:20,args"

// Logs returns the last lines of what the container has written, at most so many and in so many
// bytes. The error wraps runtime.ErrNotReadable where the log driver keeps nothing that can be read.
func (e *Engine) Logs(ctx context.Context, id string, lines, bytes int) (runtime.Log, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return runtime.Log{}, err
	}
	in, err := inspect(ctx, c, id)
	if err != nil {
		return runtime.Log{}, e.containerError(err, "read the log of", id)
	}
	body, err := c.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Tail: strconv.Itoa(lines)})
	if err != nil {
		if strings.Contains(err.Error(), "does not support reading") {
			err = fmt.Errorf("%w: %w", runtime.ErrNotReadable, err)
		}
		return runtime.Log{}, e.containerError(err, "read the log of", id)
	}
	defer body.Close()
	tail, read := runtime.NewTail(bytes), &io.LimitedReader{R: body, N: maxLogRead}
	if in.Config != nil && in.Config.Tty {
		_, err = io.Copy(tail, read)
	} else {
		err = demultiplex(tail, read)
	}
	l := tail.Log(lines)
	l.TakeTimes()
	if read.N == 0 { // the limit cuts a frame, too
		l.Cut = true
		return l, nil
	}
	if err != nil {
		return l, e.containerError(err, "read the log of", id)
	}
	return l, nil
}

// systemError is the first byte of a frame with the engine's own message: no stream of the container's.
const systemError = 3

// demultiplex writes the payload of each frame of an engine's stream to dst, whichever of the
// container's streams it is of. A frame's length is not trusted: nothing is kept of it but what is
// there.
func demultiplex(dst io.Writer, src io.Reader) error {
	var header [8]byte
	for {
		switch _, err := io.ReadFull(src, header[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("its stream is cut: %w", err)
		}
		length := int64(binary.BigEndian.Uint32(header[4:]))
		if header[0] == systemError {
			message, _ := io.ReadAll(io.LimitReader(src, min(length, startErrorMax)))
			return fmt.Errorf("the engine says: %s", strings.TrimSpace(string(message)))
		}
		if header[0] > systemError {
			return errors.New("the engine's answer is no stream of frames")
		}
		if _, err := io.CopyN(dst, src, length); err != nil {
			return fmt.Errorf("its stream is cut: %w", err)
		}
	}
}

// Processes returns what runs in the container. Engines whose ps knows no columns show those that
// it has.
func (e *Engine) Processes(ctx context.Context, id string) (runtime.Processes, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return runtime.Processes{}, err
	}
	top, err := c.ContainerTop(ctx, id, []string{psColumns})
	if err != nil && ctx.Err() == nil {
		top, err = c.ContainerTop(ctx, id, nil)
	}
	if err != nil {
		return runtime.Processes{}, e.containerError(err, "list the processes of", id)
	}
	p := runtime.Processes{Titles: top.Titles[:min(len(top.Titles), maxTitles)]}
	for _, row := range top.Processes {
		p.Add(row)
	}
	return p, nil
}

// maxTitles bounds the columns of an engine's table.
const maxTitles = 32

// Usage returns what the container uses now.
func (e *Engine) Usage(ctx context.Context, id string) (runtime.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return runtime.Usage{}, err
	}
	var s container.StatsResponse
	if err := e.get(ctx, c, "/containers/"+id+"/stats?stream=false&one-shot=true", &s); err != nil {
		return runtime.Usage{}, e.containerError(err, "measure", id)
	}
	return usageOf(&s), nil
}

func usageOf(s *container.StatsResponse) runtime.Usage {
	m := s.MemoryStats
	cache, ok := m.Stats["total_inactive_file"] // of version 1 of cgroups
	if !ok {
		cache = m.Stats["inactive_file"]
	}
	if cache > m.Usage {
		cache = 0
	}
	u := runtime.Usage{
		Memory: m.Usage - cache, MemoryLimit: m.Limit, CPU: time.Duration(s.CPUStats.CPUUsage.TotalUsage),
		Throttled: time.Duration(s.CPUStats.ThrottlingData.ThrottledTime), PIDs: s.PidsStats.Current, PIDsLimit: s.PidsStats.Limit,
	}
	if u.PIDsLimit > maxPIDs {
		u.PIDsLimit = 0
	}
	return u
}

// maxPIDs is more than Linux has: a greater limit is none.
const maxPIDs = 1 << 22
