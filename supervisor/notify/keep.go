package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	keptVersion = 1
	maxKept     = 256 << 20 // bytes; only catches what is no file of healthd's
)

// kept is the content of the file.
type kept struct {
	Version   int                        `json:"version"`
	Seq       uint64                     `json:"seq"`
	Receivers map[string]json.RawMessage `json:"receivers"`
}

// keptOf copies what is to be kept: the outboxes go on changing.
func keptOf(seq uint64, boxes map[string]*outbox) *kept {
	k := &kept{Version: keptVersion, Seq: seq, Receivers: map[string]json.RawMessage{}}
	for name, o := range boxes {
		text, err := json.Marshal(o)
		if err != nil {
			continue // cannot happen: it has only texts, times and numbers
		}
		k.Receivers[name] = text
	}
	return k
}

func (k *kept) boxes() map[string]*outbox {
	boxes := map[string]*outbox{}
	for name, text := range k.Receivers {
		o := newOutbox()
		if json.Unmarshal(text, o) != nil {
			continue
		}
		if o.Told == nil {
			o.Told = map[string]told{}
		}
		o.Queue = dropNil(o.Queue)
		boxes[name] = o
	}
	return boxes
}

// dropNil leaves out what somebody has written into the file that is no message.
func dropNil(queue []*pending) []*pending {
	var all []*pending
	for _, p := range queue {
		if p != nil && p.Message != nil {
			all = append(all, p)
		}
	}
	return all
}

// keeper writes the newest state to the file, in a goroutine of its own: the disk may hang.
type keeper struct {
	path string
	jobs chan keepJob  // the newest
	done chan keptNews // of the newest that was written
	bad  bool          // the last write failed
}

type keepJob struct {
	version uint64
	state   *kept
}

// keptNews says that a state was written, or failed.
type keptNews struct {
	version uint64
	failed  error // for the first time
	back    bool  // it is written again
}

func newKeeper(path string) *keeper {
	return &keeper{path: path, jobs: make(chan keepJob, 1), done: make(chan keptNews, 1)}
}

// keep replaces a state that is not being written yet. It never blocks.
func (k *keeper) keep(version uint64, state *kept) {
	select {
	case <-k.jobs:
	default:
	}
	k.jobs <- keepJob{version, state}
}

// run writes until ctx ends, and then the newest state.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case job := <-k.jobs:
			news := k.write(job)
			select {
			case k.done <- news:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			select {
			case job := <-k.jobs:
				k.write(job)
			default:
			}
			return
		}
	}
}

func (k *keeper) write(job keepJob) keptNews {
	news := keptNews{version: job.version}
	err := k.replace(job.state)
	switch {
	case err != nil && !k.bad:
		news.failed = err
	case err == nil && k.bad:
		news.back = true
	}
	k.bad = err != nil
	return news
}

// replace writes a new file and renames it, so that the old one stays whole until then.
func (k *keeper) replace(state *kept) (err error) {
	if k.path == "" {
		return nil
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	next := k.path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(next, k.path)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// load returns what an earlier daemon has kept; nil: nothing.
func (k *keeper) load() (*kept, error) {
	if k.path == "" {
		return nil, nil
	}
	f, err := os.Open(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKept))
	if err != nil {
		return nil, err
	}
	var state kept
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	if state.Version != keptVersion {
		return nil, fmt.Errorf("%s has version %d, this healthd knows %d", k.path, state.Version, keptVersion)
	}
	return &state, nil
}
