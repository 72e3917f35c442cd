// Package statefile keeps what an outlet knows in a JSON file that outlives the daemon. The file is replaced and never
// written in place, so whatever moment the daemon is killed at, it is whole. It knows nobody.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is where something is kept, and in which version. What is kept has a field "version" that says the latter.
type File struct {
	Path    string // empty: nothing is kept
	Version int
	Most    int64 // bytes that are read; more than that is no file of healthd's
}

// Read reads what is kept into v. found is false when there is no file. A file of another version is an error.
func (f File) Read(v any) (found bool, err error) {
	if f.Path == "" {
		return false, nil
	}
	text, err := read(f.Path, f.Most)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return false, fmt.Errorf("%s: %w", f.Path, err)
	}
	if version.Version != f.Version {
		return false, fmt.Errorf("%s has version %d, this healthd knows %d", f.Path, version.Version, f.Version)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("%s: %w", f.Path, err)
	}
	return true, nil
}

func read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// Write replaces the file. Only its owner may read it. After an error the old one is as it was.
func (f File) Write(v any) error {
	if f.Path == "" {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	next := f.Path + ".new"
	_ = os.Remove(next) // whatever a killed daemon has left there, with its mode
	err = write(next, text)
	if err == nil {
		err = os.Rename(next, f.Path)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

func write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SetAside moves a file that could not be read, so that the next Write does not destroy it. It returns why it could not be
// read, with where it is now.
func (f File) SetAside(why error) error {
	aside := f.Path + ".damaged"
	if err := os.Rename(f.Path, aside); err != nil {
		return errors.Join(why, err)
	}
	return fmt.Errorf("%w: it is now %s", why, aside)
}
