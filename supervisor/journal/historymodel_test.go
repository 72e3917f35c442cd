package journal

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"healthd/supervisor/core"
)

// modelHistory does what the comment of history says, in the plainest way.
type modelHistory struct {
	all   []*kept
	bytes map[string]int // by container
	total int
}

func (m *modelHistory) count(k *kept, sign int) {
	m.bytes[k.Container] += sign * historyBytes(&k.Event)
	m.total += sign * historyBytes(&k.Event)
}

func (m *modelHistory) add(k *kept) {
	m.all = append(m.all, k)
	m.count(k, 1)
	for m.total > maxHistory {
		victim := m.victim()
		m.count(m.all[victim], -1)
		m.all = slices.Delete(m.all, victim, victim+1)
	}
}

// victim is the first event of the container that has most, and of several such containers
// the oldest one.
func (m *modelHistory) victim() int {
	most := 0
	for _, n := range m.bytes {
		most = max(most, n)
	}
	if most <= fairShare {
		return 0
	}
	return slices.IndexFunc(m.all, func(k *kept) bool { return m.bytes[k.Container] == most })
}

// newest is the number of the newest event.
func (m *modelHistory) newest() uint64 {
	if len(m.all) == 0 {
		return 0
	}
	return m.all[len(m.all)-1].number
}

func numbers(events []*kept) []uint64 {
	all := make([]uint64, len(events))
	for i, k := range events {
		all[i] = k.number
	}
	return all
}

// modelled is a journal and its model.
type modelled struct {
	*Journal
	model modelHistory
	db    *failingDatabase
	fail  bool
	dir   string
}

func (m *modelled) open(t *testing.T) {
	m.Journal = open(t, m.dir)
	m.Journal.db.(*bolt.DB).NoSync = true
	m.db = &failingDatabase{database: m.Journal.db}
	m.db.how.Store(func(int) error {
		if m.fail {
			return diskFull(0)
		}
		return nil
	})
	m.Journal.db = m.db
}

// follow adds the journal's newest events to the model.
func (m *modelled) follow() {
	for _, k := range m.history.after(m.model.newest()) {
		m.model.add(k)
	}
}

// write carries out a transaction; meanwhile more events come.
func (m *modelled) write(fail bool, more func()) {
	b := m.takePending()
	if b == nil {
		return
	}
	more()
	m.fail = fail
	m.transact(b)
	m.follow()
}

// writeAll writes until nothing is left, not even an event about the writing.
func (m *modelled) writeAll(t *testing.T) {
	t.Helper()
	for !m.due.IsZero() {
		m.write(false, func() {})
	}
	m.checkFile(t)
}

// record records n events that take a two-thousandth of the history each.
func (m *modelled) record(n int, name func() string, random *rand.Rand) {
	for range n {
		m.keep(core.Event{Container: name(), Message: strings.Repeat("\x01", 900+random.IntN(200))})
		m.follow()
	}
}

// checkFile checks that the file holds the events up to writtenSeq that the model does.
func (m *modelled) checkFile(t *testing.T) {
	t.Helper()
	var got, want []*kept
	err := m.db.database.(*bolt.DB).View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(eventsBucket)).ForEach(func(k, _ []byte) error {
			got = append(got, &kept{number: binary.BigEndian.Uint64(k)})
			return nil
		})
	})
	for _, k := range m.model.all {
		if k.number <= m.writtenSeq {
			want = append(want, k)
		}
	}
	if err != nil || !slices.Equal(numbers(got), numbers(want)) {
		t.Fatalf("%v, the file has\n%d\nwant\n%d", err, numbers(got), numbers(want))
	}
}

// The history and the file hold what the model holds, also when transactions fail and over
// restarts of the daemon.
func TestHistoryFollowsItsModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	m := &modelled{dir: t.TempDir(), model: modelHistory{bytes: map[string]int{}}}
	m.open(t)
	names := 4
	name := func() string { return fmt.Sprint("web-", random.IntN(1+random.IntN(names))) } // some are noisier
	some := func() { m.record(random.IntN(100), name, random) }
	turns := 3000
	if testing.Short() {
		turns = 1000
	}
	for n := 1; n <= turns; n++ {
		if n%700 == 0 { // until the shares of all do not fit
			names *= 6
		}
		m.record(1, name, random)
		switch random.IntN(300) {
		case 0:
			m.write(false, some)
			m.writeAll(t)
		case 1, 2, 3:
			m.write(true, some)
		case 4:
			m.writeAll(t)
			m.Close()
			m.open(t)
		}
		if got, want := numbers(m.history.after(0)), numbers(m.model.all); n%5 == 0 && !slices.Equal(got, want) {
			t.Fatalf("after %d the history has\n%d\nwant\n%d", n, got, want)
		}
	}
}

// A flood during a transaction drops events that the transaction writes. While all fail, the
// journal notes no deletions of events that are not in the file.
func TestFloodDuringATransaction(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, fail := range []bool{false, true} {
		m := &modelled{dir: t.TempDir(), model: modelHistory{bytes: map[string]int{}}}
		m.open(t)
		flood := func() { m.record(2500, func() string { return "noisy" }, random) }
		flood()
		m.write(fail, flood)
		m.write(fail, func() {})
		flood()
		if missing := m.last - uint64(len(m.model.all)); fail && (len(m.outdated) > 0 || m.missingEvents != missing) {
			t.Errorf("%d deletions wait, %d events are missing, want %d", len(m.outdated), m.missingEvents, missing)
		}
		m.writeAll(t)
	}
}

// The history counts an event with no less than its record takes.
func FuzzHistoryBytes(f *testing.F) {
	for _, s := range []string{"", "web-1", "<b>\u2028\\\"\n\x00\x7f\xff\ufffd", strings.Repeat("\x01", maxText), strings.Repeat("ä", maxText)} {
		f.Add(s, s, s, int64(1), int64(1))
	}
	f.Fuzz(func(t *testing.T, container, reason, message string, seconds, nanos int64) {
		ev := shorten(core.Event{Time: time.Unix(seconds%(1<<37), nanos).UTC(), Container: container, Reason: reason, Message: message})
		for _, s := range []string{ev.Container, ev.Reason, ev.Message} {
			if len(s) > maxText || !utf8.ValidString(s) {
				t.Errorf("%d bytes, valid %v: %q", len(s), utf8.ValidString(s), s)
			}
		}
		key := eventKey(1)
		record, err := encode(key, ev)
		if err != nil {
			return // no JSON has this time
		}
		if takes := historyBytes(&ev); takes < len(key)+len(record) {
			t.Errorf("counted with %d bytes, its record has %d: %q", takes, len(key)+len(record), record)
		}
	})
}
