package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"healthd/supervisor/core"
)

// version is the version of the file's content. It grows when an older healthd would
// misread a newer file.
const version = 2

// The buckets, and the keys of metaBucket.
const (
	eventsBucket   = "events"   // by number, big-endian
	memoriesBucket = "memories" // by the container's ID
	metaBucket     = "meta"

	versionKey = "version"
	seenPrefix = "seen/" // and the runtime's name
	bootPrefix = "boot/" // likewise
	bootKey    = "boot"  // of all runtimes, in older files

	allRuntimes = ""
)

// Bounds of a record, in bytes. bbolt refuses a whole transaction for one key that is too
// long.
const (
	maxKey    = 1 << 10
	maxRecord = 1 << 20
)

// checksum is the length of the checksum before a record's JSON.
const checksum = 4

var errSum = errors.New("its checksum is wrong")

// recordKey is the place of a record.
type recordKey struct{ bucket, key string }

// encode returns the record of v: a checksum of key and JSON, then the JSON. bbolt has no
// checksums, and a flipped bit in a number leaves valid JSON.
func encode(key string, v any) ([]byte, error) {
	record := bytes.NewBuffer(make([]byte, checksum))
	encoder := json.NewEncoder(record)
	encoder.SetEscapeHTML(false) // which would make pages that probes got six times as long
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	data := record.Bytes()[checksum : record.Len()-len("\n")]
	if err := checkSize(key, data); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(record.Bytes(), sum(key, data))
	return record.Bytes()[:checksum+len(data)], nil
}

// decode reads what encode has written, and nothing that it would not write.
func decode(key string, data []byte, v any) error {
	if len(data) < checksum || binary.BigEndian.Uint32(data) != sum(key, data[checksum:]) {
		return errSum
	}
	if err := checkSize(key, data[checksum:]); err != nil {
		return err
	}
	return json.Unmarshal(data[checksum:], v)
}

func checkSize(key string, data []byte) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("its name has %d bytes", len(key))
	}
	if len(data) > maxRecord {
		return fmt.Errorf("it is longer than %d bytes", maxRecord)
	}
	return nil
}

func sum(key string, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte(key), table), table, data)
}

func eventKey(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// applyBatch writes b. It leaves out and reports what cannot be encoded.
func (j *Journal) applyBatch(tx *bolt.Tx, b *batch) error {
	buckets := map[string]*bolt.Bucket{}
	for _, name := range []string{eventsBucket, memoriesBucket, metaBucket} {
		bucket, err := tx.CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return err
		}
		buckets[name] = bucket
	}
	var err error
	set := func(name, key string, v any) {
		data, bad := encode(key, v)
		if bad != nil {
			j.reportUnwritable(name, key, bad)
			return
		}
		err = errors.Join(err, buckets[name].Put([]byte(key), data))
	}
	for _, r := range b.unreadable {
		err = errors.Join(err, buckets[r.bucket].Delete([]byte(r.key)))
	}
	now := j.stamp()
	for _, m := range b.memories {
		set(memoriesBucket, m.ID, m.ForFile(now))
	}
	for _, id := range b.forgotten {
		err = errors.Join(err, buckets[memoriesBucket].Delete([]byte(id)))
	}
	if b.metaDirty {
		set(metaBucket, versionKey, version)
		for name, boot := range b.boots {
			set(metaBucket, bootPrefix+name, boot)
		}
		for name, t := range b.seen {
			set(metaBucket, seenPrefix+name, t)
		}
	}
	events := buckets[eventsBucket]
	events.FillPercent = 0.9 // keys only grow: the default would leave pages half empty
	for _, number := range b.outdated {
		err = errors.Join(err, events.Delete([]byte(eventKey(number))))
	}
	for _, k := range b.events {
		set(eventsBucket, eventKey(k.number), &k.Event)
	}
	return err
}

// reportUnwritable records, once for each container, that its Memory cannot be written. It
// does not report an event, which was logged and is in memory.
func (j *Journal) reportUnwritable(bucket, key string, err error) {
	if bucket != memoriesBucket || j.reportedUnwritable[key] {
		return
	}
	if j.reportedUnwritable == nil || len(j.reportedUnwritable) > Size {
		j.reportedUnwritable = map[string]bool{}
	}
	j.reportedUnwritable[key] = true
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recordOwnEvent(EventJournalDamaged, fmt.Sprintf("cannot keep what is known of container %.80q: %v: its older state stays in the journal", key, err))
}

// fileContent is what was read from a file.
type fileContent struct {
	events           *history
	last             uint64   // number of the newest event
	outdated         []uint64 // numbers of the events that are too many
	memories         map[string]*core.Memory
	boots            map[string]string
	seen             map[string]time.Time
	unreadable       []recordKey // could not be read
	lastMayBeMissing bool        // the last transaction may be missing
}

// errDamaged says that a file is not as healthd wrote it.
var errDamaged = errors.New("it is damaged")

// newerVersion is the error about a file of a later version of healthd.
type newerVersion int

func (v newerVersion) Error() string {
	return fmt.Sprintf("it is of version %d, and this healthd knows %d", int(v), version)
}

// read returns the content of a file. Records that cannot be read are listed in
// fileContent.unreadable.
func read(tx *bolt.Tx) (*fileContent, error) {
	c := &fileContent{events: newHistory(), memories: map[string]*core.Memory{}, boots: map[string]string{}, seen: map[string]time.Time{}}
	buckets := 0
	err := tx.ForEach(func([]byte, *bolt.Bucket) error { buckets++; return nil })
	if err != nil || buckets == 0 { // a new file
		return c, err
	}
	if err := checkVersion(tx.Bucket([]byte(metaBucket))); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		bucket string
		take   func(k, v []byte) error
	}{{metaBucket, c.readMetadata}, {memoriesBucket, c.readMemory}, {eventsBucket, c.readEvent}} {
		b := tx.Bucket([]byte(part.bucket))
		if b == nil || buckets != 3 {
			return nil, fmt.Errorf("%w: it has %d buckets, or others", errDamaged, buckets)
		}
		if err := b.ForEach(part.take); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func checkVersion(meta *bolt.Bucket) error {
	if meta == nil {
		return fmt.Errorf("%w: it has no version", errDamaged)
	}
	return readVersion(meta.Get([]byte(versionKey)))
}

// readVersion returns an error unless the record is that of a version that this healthd reads.
func readVersion(record []byte) error {
	var v int
	if err := decode(versionKey, record, &v); err != nil {
		return fmt.Errorf("%w: its version cannot be read: %w", errDamaged, err)
	}
	if v > version {
		return newerVersion(v)
	}
	if v < 1 {
		return fmt.Errorf("%w: there is no version %d", errDamaged, v)
	}
	return nil
}

func (c *fileContent) readEvent(k, v []byte) error {
	var ev core.Event
	if len(k) != 8 || decode(string(k), v, &ev) != nil {
		c.unreadable = append(c.unreadable, recordKey{eventsBucket, string(k)})
		return nil
	}
	c.last = binary.BigEndian.Uint64(k)
	c.events.add(c.last, shorten(ev))
	for c.events.overfull() {
		c.outdated = append(c.outdated, c.events.drop())
	}
	return nil
}

func (c *fileContent) readMemory(k, v []byte) error {
	var m core.Memory
	if decode(string(k), v, &m) != nil || m.ID != string(k) {
		c.unreadable = append(c.unreadable, recordKey{memoriesBucket, string(k)})
		return nil
	}
	c.memories[m.ID] = &m
	return nil
}

func (c *fileContent) readMetadata(k, v []byte) error {
	var err error
	name, seen := bytes.CutPrefix(k, []byte(seenPrefix))
	bootOf, isBoot := bytes.CutPrefix(k, []byte(bootPrefix))
	switch {
	case isBoot, string(k) == bootKey:
		var boot string
		if err = decode(string(k), v, &boot); err == nil && isBoot {
			c.boots[string(bootOf)] = boot
		} else if err == nil {
			c.boots[allRuntimes] = boot
		}
	case seen:
		var t time.Time
		if err = decode(string(k), v, &t); err == nil {
			c.seen[string(name)] = t
		}
	case string(k) != versionKey:
		err = errDamaged
	}
	if err != nil {
		c.unreadable = append(c.unreadable, recordKey{metaBucket, string(k)})
	}
	return nil
}

// describeLost says what could not be read; it is empty when everything could.
func (c *fileContent) describeLost() string {
	events, others := 0, []string{}
	if c.lastMayBeMissing {
		others = append(others, "the last change, perhaps")
	}
	for _, r := range c.unreadable {
		switch r.bucket {
		case eventsBucket:
			events++
		case memoriesBucket:
			others = append(others, fmt.Sprintf("what was known of container %q", r.key))
		default:
			others = append(others, fmt.Sprintf("%q", r.key))
		}
	}
	if events > 0 {
		others = append([]string{fmt.Sprintf("%d events", events)}, others...)
	}
	return strings.Join(others, ", ")
}
