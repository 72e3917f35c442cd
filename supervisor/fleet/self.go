package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"sync"
	"time"

	"healthd/supervisor/statefile"
)

const (
	keptVersion = 1
	maxKept     = 256 << 20 // bytes; only catches what is no file of healthd's
	// Revisions are reserved in advance, so that the file is not written with each change of a member.
	reserve   = 1000
	keepAgain = time.Minute // after a failure
)

func stateFile(dir, name string) statefile.File {
	f := statefile.File{Version: keptVersion, Most: maxKept}
	if dir != "" {
		f.Path = filepath.Join(dir, name)
	}
	return f
}

// kept is what a host keeps of itself.
type kept struct {
	Version  int    `json:"version"`
	Instance string `json:"instance"`
	Lease    int64  `json:"lease,omitzero"`
	For      string `json:"for,omitempty"`  // the prefix and name of the host under which it has the lease
	TTL      int64  `json:"ttl,omitzero"`   // that the lease was asked with, in nanoseconds
	Boot     string `json:"boot,omitempty"` // of the host, in which the lease was had
	Ended    int64  `json:"ended,omitzero"` // a lease of an earlier boot, which may still live
	Reserved uint64 `json:"reserved"`       // no higher revision was given to a member
	// Alone says that no daemon of this host has ever known members of others: nobody was told of any.
	Alone bool `json:"alone,omitempty"`
}

// self is what outlives the daemon of a host. Any goroutine may use it; run writes it.
type self struct {
	file statefile.File

	mu       sync.Mutex
	kept     kept
	revision uint64
	changed  chan struct{} // has room for one
}

func newSelf(dir string) *self {
	return &self{file: stateFile(dir, "fleet.json"), changed: make(chan struct{}, 1)}
}

// load reads what an earlier daemon has left. Without that the host is another instance. earlier says that there was one, maybe
// without a fleet. The lease of an earlier boot has ended: the reboot has ended all that was published under it. The error says what
// was set aside.
func (s *self) load(earlier bool, boot string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.file.Read(&s.kept)
	if err != nil {
		err = s.file.SetAside(err)
	}
	if !found || !instancePattern.MatchString(s.kept.Instance) {
		s.kept = kept{Version: keptVersion, Instance: randomHex(16), Alone: earlier && !found && err == nil}
	}
	if boot != "" && s.kept.Boot != boot {
		if s.kept.Boot != "" && s.kept.Lease != 0 {
			s.kept.Ended, s.kept.Lease = s.kept.Lease, 0
		}
		s.kept.Boot = boot
	}
	s.revision = s.kept.Reserved
	signal(s.changed)
	return err
}

func randomHex(bytes int) string {
	id := make([]byte, bytes)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}

// anew makes the host another instance, without a lease.
func (s *self) anew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Instance, s.kept.Lease = randomHex(16), 0
	signal(s.changed)
}

func (s *self) instance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Instance
}

// alone says that nobody was ever told of members of other hosts.
func (s *self) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Alone
}

// knowsOthers takes in that they are known.
func (s *self) knowsOthers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.Alone {
		s.kept.Alone = false
		signal(s.changed)
	}
}

// lease returns the lease of an earlier daemon that has asked for the same TTL; 0: there is none. One of another name or prefix
// is left to end: what is under it would live as long as it is renewed, and nobody would take it away.
func (s *self) lease(of string, ttl time.Duration) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.TTL != int64(ttl) || s.kept.For != of {
		return 0
	}
	return s.kept.Lease
}

// ended returns the lease of an earlier boot that is to be revoked; 0: there is none. One of another name may be another host's, of which
// this one is a copy.
func (s *self) ended(of string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.For != of {
		return 0
	}
	return s.kept.Ended
}

func (s *self) revoked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Ended = 0
	signal(s.changed)
}

func (s *self) setLease(id int64, of string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.For != of {
		s.kept.Ended = 0 // it is not this name's to revoke
	}
	s.kept.Lease, s.kept.For, s.kept.TTL = id, of, int64(ttl)
	signal(s.changed)
}

// nextRevision returns a number that no member of this instance has had. Publishing never waits for the disk: if it hangs for
// as long as half of what was reserved lasts, a daemon that is killed then may give numbers again.
func (s *self) nextRevision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	if s.revision+reserve/2 > s.kept.Reserved {
		s.kept.Reserved = s.revision + reserve
		signal(s.changed)
	}
	return s.revision
}

func (s *self) save() error {
	s.mu.Lock()
	k := s.kept
	s.mu.Unlock()
	return s.file.Write(k)
}

// keepSelf writes what has changed until ctx ends, and once more then.
func (f *Fleet) keepSelf(ctx context.Context) {
	again := make(<-chan time.Time)
	for {
		select {
		case <-ctx.Done():
			_ = f.self.save()
			return
		case <-f.self.changed:
		case <-again:
		}
		if err := f.self.save(); err != nil {
			f.fail(aboutState, failed, "cannot keep what a restart of healthd needs: "+err.Error())
			again = time.After(keepAgain)
			continue
		}
		f.mend(aboutState)
	}
}
