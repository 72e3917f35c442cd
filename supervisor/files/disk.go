package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// digest stands for a content.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// content is what a file has.
type content struct {
	text     []byte
	exists   bool
	mode     fs.FileMode
	uid, gid int
}

func (c *content) digest() digest { return sha256.Sum256(c.text) }

// readContent returns what is at a path, which must be a regular file or nothing.
func readContent(path string) (content, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // of a pipe it does not wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return content{mode: 0o644, uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() {
		return content{}, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxContent+1))
	if err == nil && len(text) > maxContent {
		err = fmt.Errorf("%s has more than %d MB: healthd has not written that", path, maxContent>>20)
	}
	owner := info.Sys().(*syscall.Stat_t)
	return content{text: text, exists: true, mode: info.Mode().Perm(), uid: int(owner.Uid), gid: int(owner.Gid)}, err
}

// Resolve follows links, also to a file that does not exist yet.
func Resolve(path string) (string, error) {
	const most = 40 // links, as in the kernel
	for range most {
		target, err := os.Readlink(path)
		if err != nil { // it is no link
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			return filepath.Join(dir, filepath.Base(path)), err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("%s leads to too many links", path)
}

// hiddenName returns the name of a candidate for a path. No balancer takes a file of that name for its configuration.
func hiddenName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return ".healthd-" + hex.EncodeToString(sum[:8])
}

// candidatePlaces returns where a candidate for a target may be: best where nobody watches.
func candidatePlaces(stateDir, target string) []string {
	dir := filepath.Dir(target)
	var all []string
	for _, place := range []string{stateDir, filepath.Dir(dir)} {
		if place != "" && place != dir && sameMount(place, dir) {
			all = append(all, place)
		}
	}
	return append(all, dir)
}

// sameMount says whether a file may be renamed from one directory to the other. Two mounts of one file system, as a sandbox
// of systemd has them, are not enough.
func sameMount(a, b string) bool {
	var x, y unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	if unix.Statx(unix.AT_FDCWD, a, 0, mask, &x) != nil || unix.Statx(unix.AT_FDCWD, b, 0, mask, &y) != nil {
		return false
	}
	return x.Dev_major == y.Dev_major && x.Dev_minor == y.Dev_minor && x.Mnt_id == y.Mnt_id
}

// newCandidate writes a text into the first place that takes it, with the mode and owner of what it will replace.
func newCandidate(places []string, name string, text []byte, like *content) (path string, err error) {
	for _, dir := range places {
		path = filepath.Join(dir, name)
		if err = writeNew(path, text, like); err == nil {
			return path, nil
		}
	}
	return "", err
}

// writeNew writes a new file, whole and on the disk, or none.
func writeNew(path string, text []byte, like *content) (err error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrExist) && os.Remove(path) == nil { // what a daemon that was killed has left
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Chmod(like.mode); err != nil {
		return err
	}
	if err := giveTo(f, like); err != nil {
		return err
	}
	return f.Sync()
}

// giveTo gives a file to whom the old one belongs. healthd may not be allowed to: it does not matter as long as all may read
// it.
func giveTo(f *os.File, like *content) error {
	if like.uid == os.Geteuid() && like.gid == os.Getegid() {
		return nil
	}
	err := f.Chown(like.uid, like.gid)
	const allRead = 0o444
	if err != nil && like.mode&allRead != allRead {
		return fmt.Errorf("the old file belongs to user %d, and not all may read it: %w (chmod 644, or add CAP_CHOWN to CapabilityBoundingSet of the unit)", like.uid, err)
	}
	return nil
}

// putInPlace renames a candidate to its target.
func putInPlace(candidate, target string, text []byte, like *content) error {
	copyLabel(candidate, target)
	err := os.Rename(candidate, target)
	if errors.Is(err, unix.EXDEV) { // a kernel before 5.8 does not tell mounts apart
		_ = os.Remove(candidate)
		candidate = filepath.Join(filepath.Dir(target), filepath.Base(candidate))
		if err = writeNew(candidate, text, like); err == nil {
			err = os.Rename(candidate, target)
		}
	}
	if err != nil {
		_ = os.Remove(candidate)
	}
	return err
}

// copyLabel gives a candidate SELinux' label of the file that it replaces, or of its directory: one made elsewhere has
// another, with which the balancer may not read it. Without SELinux there is none.
func copyLabel(candidate, target string) {
	const label = "security.selinux"
	text := make([]byte, 256)
	n, err := unix.Getxattr(target, label, text)
	if err != nil {
		n, err = unix.Getxattr(filepath.Dir(target), label, text)
	}
	if err == nil {
		_ = unix.Setxattr(candidate, label, text[:n], 0)
	}
}

// withAdvice says what to do where healthd may not write.
func withAdvice(err error, target string) error {
	if err == nil || !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: let the unit write there: systemctl edit healthd, [Service], ReadWritePaths=%s, then systemctl restart healthd", err, filepath.Dir(target))
}
