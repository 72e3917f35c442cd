package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"healthd/runtime"
)

// maxLogRead bounds what is read of a log file, in bytes, from its end: JSON makes up to six of one.
const maxLogRead = 1 << 20

// Logs returns the last lines of what the container has written, at most so many and in so many
// bytes, where nerdctl keeps them in a JSON file, or containerd in a plain one. The error wraps
// runtime.ErrNotReadable for all other places.
func (e *Engine) Logs(ctx context.Context, id string, lines, most int) (runtime.Log, error) {
	k, err := e.key(id)
	if err != nil {
		return runtime.Log{}, err
	}
	if e.records.get(k).LogURI == "" {
		if _, err := e.Inspect(ctx, id); errors.Is(err, runtime.ErrNotFound) {
			return runtime.Log{}, err
		}
	}
	path, plain, err := e.logFile(k)
	if err != nil {
		return runtime.Log{}, e.containerError(fmt.Errorf("%w: %w", runtime.ErrNotReadable, err), "read the log of", k)
	}
	text, whole, err := endOf(path, maxLogRead)
	if err != nil {
		return runtime.Log{}, e.containerError(fmt.Errorf("%w: %w", runtime.ErrNotReadable, err), "read the log of", k)
	}
	tail := runtime.NewTail(most)
	if plain {
		tail.Write(text)
	} else {
		whole = unpackLog(tail, text, whole)
	}
	l := tail.Log(lines)
	l.TakeTimes()
	l.Cut = l.Cut || !whole && len(l.Lines) < lines
	return l, nil
}

// logFile returns where the log is. plain: it is just the output. The container's labels do not
// choose the file: an image can set them. The place of a plain one is that which containerd's shim
// was told by whoever made the task.
func (e *Engine) logFile(k key) (path string, plain bool, err error) {
	to := e.records.get(k).LogURI
	uri, err := url.Parse(to)
	switch {
	case err != nil || to == "":
		return "", false, errors.New("its output is not kept where healthd could read it")
	case uri.Scheme == "file" && uri.Path != "" && uri.Path != "/dev/null":
		return uri.Path, true, nil
	case uri.Scheme != "binary" || uri.RawQuery != nerdctlLogArgument+"="+url.QueryEscape(e.conf.NerdctlDir):
		return "", false, fmt.Errorf("its output goes to %s", to)
	}
	dir := filepath.Join(e.conf.NerdctlDir, "containers", k.namespace, k.id)
	var config struct {
		Driver string            `json:"driver"`
		Opts   map[string]string `json:"opts"`
	}
	if text, _, err := endOf(filepath.Join(dir, "log-config.json"), maxLogRead); err == nil {
		_ = json.Unmarshal(text, &config)
	}
	if config.Driver != "" && config.Driver != "json-file" {
		return "", false, fmt.Errorf("its log driver is %s", config.Driver)
	}
	if elsewhere := config.Opts["log-path"]; filepath.IsAbs(elsewhere) {
		return elsewhere, false, nil
	}
	return filepath.Join(dir, k.id+"-json.log"), false, nil
}

// endOf returns the end of a regular file, at most so many bytes. whole says that it is all of it.
func endOf(path string, most int64) (text []byte, whole bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO has nobody who writes
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is no file", path)
	}
	from := max(0, info.Size()-most)
	text, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return text, from == 0, err
}

// unpackLog writes what nerdctl's JSON file has, each line after its time, and returns whether
// nothing is missing. What is no JSON is left out: the first line may be cut.
func unpackLog(to *runtime.Tail, text []byte, whole bool) bool {
	broken := false // the line before has no end
	for line := range bytes.Lines(text) {
		var entry struct {
			Log  string    `json:"log"`
			Time time.Time `json:"time"`
		}
		if json.Unmarshal(line, &entry) != nil {
			whole = false
			continue
		}
		if !broken && !entry.Time.IsZero() {
			to.Write([]byte(entry.Time.Format(time.RFC3339Nano) + " "))
		}
		to.Write([]byte(entry.Log))
		broken = !strings.HasSuffix(entry.Log, "\n")
	}
	return whole
}
