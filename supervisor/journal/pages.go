package journal

import (
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// releaseEvery bounds how often pages are released.
const releaseEvery = time.Second

// releasePages tells the kernel that healthd needs none of the file's first size bytes before the next transaction:
// bbolt maps the file into memory, and all that was ever read or changed there would count as healthd's. What is
// needed again comes from the kernel's cache, as the pages are the file's own. Only Run may call it, and
// never during a transaction, in which bbolt may map the file elsewhere.
func (j *Journal) releasePages(size int64) {
	db, ok := j.db.(*bolt.DB)
	if now := time.Now(); ok && now.Sub(j.releasedAt) >= releaseEvery {
		j.releasedAt = now
		// An error would only mean that the pages stay.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, db.Info().Data, uintptr(size), unix.MADV_DONTNEED)
	}
}
