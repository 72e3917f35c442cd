package recorder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"healthd/supervisor"
)

// Bounds of what is kept. What is oldest goes first.
const (
	maxOfOne      = 20      // records of one container
	maxBytesOfOne = 8 << 20 // as they are kept
	maxAll        = 500
	maxBytesOfAll = 256 << 20
	maxAge        = 30 * 24 * time.Hour
	// maxInMemory and maxBytesInMemory are for records that are not in a file.
	maxInMemory      = 50
	maxBytesInMemory = 16 << 20
)

// store keeps records.
type store struct {
	dir string // empty: in memory

	mu  sync.Mutex
	all []*kept // oldest first
}

// openStore returns the store in dir. With an error it is in memory.
func openStore(dir string, now time.Time) (*store, error) {
	s := &store{dir: dir}
	if dir == "" {
		return s, nil
	}
	all, err := readDir(dir)
	if err != nil {
		return s, fmt.Errorf("cannot read those of before: %w", err)
	}
	s.all = all
	s.sort()
	s.tidy(now)
	return s, nil
}

func (s *store) sort() {
	slices.SortStableFunc(s.all, func(a, b *kept) int {
		if d := a.Time.Compare(b.Time); d != 0 {
			return d
		}
		return a.Run - b.Run
	})
}

// add keeps a record. With an error it is in memory only. Only one goroutine adds.
func (s *store) add(m *made, now time.Time) error {
	m.record.Run = s.nextRun(m.key, m.record.Restarts+1)
	data, err := encode(m.record)
	if err != nil {
		return err
	}
	k := &kept{
		RecordInfo: supervisor.RecordInfo{Run: m.record.Run, Time: m.record.Time.Truncate(time.Millisecond), Cause: m.record.Cause, Bytes: len(data)},
		key:        m.key, name: m.name,
	}
	k.File = k.fileName()
	if s.dir == "" {
		k.data = data
	} else if err = s.write(k.File, data); err != nil {
		k.data = data
	}
	s.mu.Lock()
	s.all = append(s.all, k)
	s.sort()
	s.mu.Unlock()
	s.tidy(now)
	return err
}

func (s *store) write(name string, data []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil { // it may be gone, or come later than healthd
		return err
	}
	return writeFile(s.dir, name, data)
}

// nextRun returns the number of a container's newest run, at least that one.
func (s *store) nextRun(key string, least int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		if k.key == key {
			least = max(least, k.Run+1)
		}
	}
	return least
}

// tidy removes what is too much or too old.
func (s *store) tidy(now time.Time) {
	s.mu.Lock()
	gone := excess(s.all, now)
	s.all = slices.DeleteFunc(s.all, func(k *kept) bool { return gone[k] })
	s.mu.Unlock()
	for k := range gone {
		s.removeFile(k)
	}
}

func (s *store) removeFile(k *kept) {
	if k.data == nil {
		_ = os.Remove(filepath.Join(s.dir, k.File))
	}
}

// excess returns which of these records must go. all has the oldest first.
func excess(all []*kept, now time.Time) map[*kept]bool {
	gone := map[*kept]bool{}
	type sum struct{ records, bytes int }
	var total, memory sum
	ofOne := map[string]*sum{}
	add := func(s *sum, k *kept, records, bytes int) (fits bool) {
		fits = s.records < records && s.bytes+k.Bytes <= bytes
		s.records, s.bytes = s.records+1, s.bytes+k.Bytes
		return fits
	}
	for _, k := range slices.Backward(all) {
		if ofOne[k.key] == nil {
			ofOne[k.key] = &sum{}
		}
		switch {
		case now.Sub(k.Time) > maxAge,
			!add(ofOne[k.key], k, maxOfOne, maxBytesOfOne),
			!add(&total, k, maxAll, maxBytesOfAll),
			k.data != nil && !add(&memory, k, maxInMemory, maxBytesInMemory):
			gone[k] = true
		}
	}
	return gone
}

// ofKey returns the records of a container, newest first.
func (s *store) ofKey(key string) []supervisor.RecordInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []supervisor.RecordInfo{}
	for _, k := range slices.Backward(s.all) {
		if k.key == key {
			found = append(found, k.RecordInfo)
		}
	}
	return found
}

// ofName returns the records of the container that had the name last.
func (s *store) ofName(name string) []supervisor.RecordInfo {
	s.mu.Lock()
	key := ""
	for _, k := range slices.Backward(s.all) {
		if k.name == name {
			key = k.key
			break
		}
	}
	s.mu.Unlock()
	return s.ofKey(key)
}

// errGone says that a record is not kept any more.
var errGone = errors.New("the record is not kept any more")

func (s *store) read(file string) (*supervisor.FlightRecord, error) {
	s.mu.Lock()
	i := slices.IndexFunc(s.all, func(k *kept) bool { return k.File == file })
	if i < 0 {
		s.mu.Unlock()
		return nil, errGone
	}
	k := s.all[i]
	s.mu.Unlock()
	data := k.data
	if data == nil {
		var err error
		if data, err = readFile(filepath.Join(s.dir, k.File)); err != nil {
			return nil, fmt.Errorf("cannot read the record: %w", err)
		}
	}
	r, err := decode(data)
	if err != nil {
		s.drop(k)
	}
	return r, err
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

func (s *store) drop(k *kept) {
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(other *kept) bool { return other == k })
	s.mu.Unlock()
	s.removeFile(k)
}
