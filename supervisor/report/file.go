package report

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// version is the version of the file. It grows when an older healthd would misread a newer file.
const version = 1

const (
	fileName    = "report.json.gz"
	damagedName = fileName + ".damaged"
	newName     = fileName + ".new" // what is being written
)

// maxFile is how much the file may hold, unpacked. The ledger's bounds keep it below.
const maxFile = 64 << 20

// errDamaged says that a file is not as healthd wrote it.
var errDamaged = errors.New("it is damaged")

// newerVersion is the error about a file of a later version of healthd.
type newerVersion int

func (v newerVersion) Error() string {
	return fmt.Sprintf("it is of version %d, and this healthd knows %d", int(v), version)
}

// The file is compressed JSON: a head, and then the services. gzip brings a checksum and tells of a file that is cut
// off.
type head struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"`
}

type record struct {
	Name    string     `json:"name"`
	Project string     `json:"project,omitempty"`
	Phase   Phase      `json:"phase"`
	Outage  ticks      `json:"outage,omitempty"`
	Seen    time.Time  `json:"seen"`
	Hours   [][]uint32 `json:"hours"`
	Days    [][]uint32 `json:"days"`
}

// A bucket is a list of its numbers; those of incidents follow where there are any, restarts by cause last.
const (
	plainNumbers = 5
	allNumbers   = plainNumbers + 5 + numCauses - 1 // core.NoCause restarts nothing
)

func numbersOf(s shelf) [][]uint32 {
	all := make([][]uint32, len(s))
	for i := range s {
		b := &s[i]
		all[i] = []uint32{uint32(b.at), b.observed, b.stopped, b.ready, b.capacity}
		if in := b.incidents; in != nil {
			all[i] = append(all[i], in.outages, in.longest, in.detections, in.detected, in.slowestFind)
			all[i] = append(all[i], in.restarts[1:]...)
		}
	}
	return all
}

// shelfOf undoes numbersOf. Buckets must be in order, and no more than most.
func shelfOf(all [][]uint32, most int) (shelf, error) {
	if len(all) > most {
		return nil, fmt.Errorf("%w: it has %d buckets of a service", errDamaged, len(all))
	}
	s := make(shelf, 0, len(all))
	for i, n := range all {
		if len(n) != plainNumbers && len(n) != allNumbers {
			return nil, fmt.Errorf("%w: a bucket has %d numbers", errDamaged, len(n))
		}
		b := bucket{at: int32(n[0]), observed: n[1], stopped: n[2], ready: n[3], capacity: n[4]}
		if i > 0 && s[i-1].at >= b.at {
			return nil, fmt.Errorf("%w: its buckets are out of order", errDamaged)
		}
		if in := n[plainNumbers:]; len(in) > 0 {
			b.incidents = &incidents{outages: in[0], longest: in[1], detections: in[2], detected: in[3], slowestFind: in[4]}
			copy(b.incidents.restarts[1:], in[5:])
		}
		s = append(s, b)
	}
	return s, nil
}

func (s *service) record() record {
	return record{s.name, s.project, s.phase, s.outage, s.seen, numbersOf(s.hours), numbersOf(s.days)}
}

func (r *record) service() (s *service, err error) {
	if r.Name == "" || r.Phase >= numPhases {
		return nil, fmt.Errorf("%w: it has a service %.80q in phase %d", errDamaged, r.Name, r.Phase)
	}
	s = &service{name: r.Name, project: r.Project, phase: r.Phase, outage: max(0, r.Outage), seen: r.Seen.UTC()}
	if s.hours, err = shelfOf(r.Hours, maxHours); err != nil {
		return nil, err
	}
	s.days, err = shelfOf(r.Days, maxDays)
	return s, err
}

// read returns the ledger that a file holds.
func read(from io.Reader) (*ledger, error) {
	unpacked, err := gzip.NewReader(bufio.NewReader(from))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	decoder := json.NewDecoder(io.LimitReader(unpacked, maxFile))
	var h head
	if err := decoder.Decode(&h); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if h.Version > version {
		return nil, newerVersion(h.Version)
	}
	if h.Version < 1 {
		return nil, fmt.Errorf("%w: there is no version %d", errDamaged, h.Version)
	}
	l := newLedger()
	l.began = h.Began.UTC()
	for {
		var r record
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return l, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		s, err := r.service()
		if err != nil {
			return nil, err
		}
		if l.services[s.name] != nil || len(l.services) >= maxServices {
			return nil, fmt.Errorf("%w: it has a service twice, or too many", errDamaged)
		}
		l.services[s.name] = s
	}
}

// write writes all of them as read reads it.
func write(to io.Writer, h head, records func(yield func(*record) bool)) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(packed)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(h)
	for r := range records {
		err = errors.Join(err, encoder.Encode(r))
		if err != nil {
			break
		}
	}
	return errors.Join(err, packed.Close())
}

// replace writes a file beside that in a directory, and lets it take its place when it is on the disk: whatever
// happens meanwhile, there is a whole one.
func replace(dir string, fill func(io.Writer) error) (err error) {
	path := filepath.Join(dir, newName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path) // a full disk needs the room
		}
	}()
	buffered := bufio.NewWriter(f)
	if err = errors.Join(fill(buffered), buffered.Flush()); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(path, filepath.Join(dir, fileName)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir has a renamed file keep its name over a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads the file of a directory; without one the ledger is empty. A file that is damaged, or of a later version, is set aside, and told
// is the message about it.
func load(dir string) (l *ledger, told string, err error) {
	path := filepath.Join(dir, fileName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newLedger(), "", nil
	}
	if err != nil {
		return newLedger(), "", err
	}
	defer f.Close()
	l, err = read(f)
	if err == nil {
		return l, "", nil
	}
	aside := filepath.Join(dir, damagedName)
	if later, is := errors.AsType[newerVersion](err); is {
		aside = filepath.Join(dir, fmt.Sprintf("%s.version-%d", fileName, int(later)))
	}
	if renamed := os.Rename(path, aside); renamed != nil {
		return newLedger(), "", errors.Join(err, renamed)
	}
	return newLedger(), fmt.Sprintf("%s cannot be read: %v: it is now %s, and the report begins anew", path, err, aside), nil
}
