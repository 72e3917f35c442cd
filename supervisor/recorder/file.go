package recorder

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// maxRecord bounds a record when it is read, in bytes: what is longer, healthd has not written.
const maxRecord = 16 << 20

// The name of a record's file has all that is needed to list it: no file is read at the start. Names that
// containers choose are only in it as hashes.
//
//	hash of the identity-hash of the name-run-milliseconds since the epoch-cause.json.gz
var fileForm = regexp.MustCompile(`^([0-9a-f]{24})-([0-9a-f]{24})-([0-9]{1,9})-([0-9]{1,15})-([a-z_]{1,16})\.json\.gz$`)

// tempPrefix is of files that are being written.
const tempPrefix = ".new-"

// kept is a record that is kept.
type kept struct {
	supervisor.RecordInfo
	key, name string // hashes
	data      []byte // nil: it is in the file
}

func (k *kept) fileName() string {
	return fmt.Sprintf("%s-%s-%d-%d-%s.json.gz", k.key, k.name, k.Run, k.Time.UnixMilli(), k.Cause)
}

// parseName returns the record of a file of that name, nil if it is none.
func parseName(name string) *kept {
	found := fileForm.FindStringSubmatch(name)
	if found == nil {
		return nil
	}
	run, _ := strconv.Atoi(found[3]) // of so many digits, these cannot fail
	at, _ := strconv.ParseInt(found[4], 10, 64)
	return &kept{
		RecordInfo: supervisor.RecordInfo{Run: run, Time: time.UnixMilli(at).UTC(), Cause: found[5], File: name},
		key:        found[1], name: found[2],
	}
}

// keyOf returns the hash of what survives a container's re-creation.
func keyOf(v *core.View) string {
	return hashOf(v.Container.Runtime + "\x00" + v.Container.Namespace + "\x00" + v.Identity)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

func encode(r *supervisor.FlightRecord) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

// errDamaged says that what is in a file is no record.
var errDamaged = errors.New("the record is damaged")

func decode(data []byte) (*supervisor.FlightRecord, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	r, limited := &supervisor.FlightRecord{}, &io.LimitedReader{R: unpacked, N: maxRecord}
	if err := json.NewDecoder(limited).Decode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if _, err := io.Copy(io.Discard, limited); err != nil { // its checksum comes last
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, nil
}

// writeFile writes a file that is there whole or not at all, for its owner only.
func writeFile(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, tempPrefix) // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// readDir returns the records that a directory has, and removes what was half written. It makes the
// directory if there is none.
func readDir(dir string) ([]*kept, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*kept
	for _, f := range files {
		if strings.HasPrefix(f.Name(), tempPrefix) {
			_ = os.Remove(filepath.Join(dir, f.Name()))
			continue
		}
		k := parseName(f.Name())
		info, err := f.Info()
		if k == nil || err != nil || !info.Mode().IsRegular() {
			continue
		}
		k.Bytes = int(info.Size())
		all = append(all, k)
	}
	return all, nil
}
