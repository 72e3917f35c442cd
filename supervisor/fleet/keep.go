package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
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
	// What is known of others is written this often, and costs a fiftieth of a disk at most.
	keepViewEvery = 5 * time.Second
	keepViewShare = 50
)

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
	// Held has the IDs of the containers that holds of the fleet have held, by service.
	Held map[string][]string `json:"held,omitempty"`
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

func stateFile(dir, name string) statefile.File {
	f := statefile.File{Version: keptVersion, Most: maxKept}
	if dir != "" {
		f.Path = filepath.Join(dir, name)
	}
	return f
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
	s.touch()
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
	s.touch()
}

func (s *self) touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
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
		s.touch()
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
		s.kept.Ended = 0
	}
	return s.kept.Ended
}

func (s *self) revoked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Ended = 0
	s.touch()
}

func (s *self) setLease(id int64, of string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Lease, s.kept.For, s.kept.TTL = id, of, int64(ttl)
	s.touch()
}

// nextRevision returns a number that no member of this instance has had. Publishing never waits for the disk: if it hangs for
// as long as half of what was reserved lasts, a daemon that is killed then may give numbers again.
func (s *self) nextRevision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	if s.revision+reserve/2 > s.kept.Reserved {
		s.kept.Reserved = s.revision + reserve
		s.touch()
	}
	return s.revision
}

// held returns what setHeld has set last. Nobody changes it.
func (s *self) held() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Held
}

func (s *self) setHeld(held map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.EqualFunc(held, s.kept.Held, sameIDs) {
		s.kept.Held = held
		s.touch()
	}
}

func sameIDs(a, b []string) bool {
	return len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
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

// keptView is what is kept of other hosts.
type keptView struct {
	Version  int        `json:"version"`
	Prefix   string     `json:"prefix"` // of the fleet that has them
	Revision int64      `json:"revision"`
	Keys     []keptKey  `json:"keys"`
	Gone     []keptGone `json:"gone,omitempty"` // hosts without a key
	values   []*entry   // what Keys are made of, in the goroutine that writes
}

type keptKey struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

type keptGone struct {
	Name  string    `json:"name"`
	State HostState `json:"state"`
	Since time.Time `json:"since"`
	Last  hostValue `json:"last"`
}

// keep copies what is to be kept: the view goes on changing, its entries do not.
func (v *view) keep() *keptView {
	k := &keptView{Version: keptVersion, Revision: v.seen}
	for _, e := range v.entries {
		k.values = append(k.values, e)
	}
	for _, h := range v.hosts {
		if h.state != HostLive {
			k.Gone = append(k.Gone, keptGone{h.name, h.state, h.since, h.last})
		}
	}
	return k
}

func (k *keptView) encode() {
	for _, e := range k.values {
		var value any = e.host
		if e.key.kind == memberKey {
			value = e.member
		}
		if text, err := encode(value); err == nil {
			k.Keys = append(k.Keys, keptKey{e.name, json.RawMessage(text)})
		}
	}
	k.values = nil
}

// restore shows what an earlier daemon knew last. All of it is as if seen before a break.
func (v *view) restore(k *keptView, now time.Time) *changes {
	return v.fold(now, func() {
		for _, g := range k.Gone {
			if checkHost(g.Name) == nil && g.Name != v.self && (g.State == HostLost || g.State == HostLeft) {
				v.hosts[g.Name] = &host{name: g.Name, state: g.State, since: g.Since, last: g.Last}
			}
		}
		for _, r := range k.Keys {
			v.put(&record{name: r.Key, value: r.Value})
		}
		v.seen = max(0, k.Revision)
		v.wrong.relist()
		v.wrong.isNew = false // somebody has written into the file
	})
}

// loadView reads what an earlier daemon knew of others in the fleet of a prefix; nil: nothing.
func loadView(file statefile.File, prefix string) (*keptView, error) {
	k := &keptView{}
	found, err := file.Read(k)
	if err != nil {
		return nil, file.SetAside(err)
	}
	if !found || k.Prefix != prefix {
		return nil, nil
	}
	return k, nil
}

// keepView writes the newest of what it gets until the channel is closed.
func (f *Fleet) keepView(ctx context.Context, file statefile.File, views <-chan *keptView) {
	for k := range views {
		began := time.Now()
		k.Prefix = f.config.Prefix
		k.encode()
		if err := file.Write(k); err != nil {
			f.fail(aboutKnown, failed, "cannot keep what is known of other hosts: "+err.Error())
		} else {
			f.mend(aboutKnown)
		}
		sleep(ctx, max(keepViewEvery, keepViewShare*time.Since(began)))
	}
}

// sleep waits, and says whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
