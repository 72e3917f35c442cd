package notify

import (
	"context"
	"encoding/json"

	"healthd/supervisor/statefile"
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
	file statefile.File
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
	return &keeper{file: statefile.File{Path: path, Version: keptVersion, Most: maxKept}, jobs: make(chan keepJob, 1), done: make(chan keptNews, 1)}
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
	err := k.file.Write(job.state)
	switch {
	case err != nil && !k.bad:
		news.failed = err
	case err == nil && k.bad:
		news.back = true
	}
	k.bad = err != nil
	return news
}

// load returns what an earlier daemon has kept; nil: nothing.
func (k *keeper) load() (*kept, error) {
	var state kept
	if found, err := k.file.Read(&state); err != nil || !found {
		return nil, err
	}
	return &state, nil
}
