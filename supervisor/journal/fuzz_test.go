package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"healthd/supervisor/core"
)

// sealed is the record of any text: what a file has whose checksums are right.
func sealed(key, text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, sum(key, []byte(text))), text...)
}

// Whatever is in a file, a record is read as nothing or as what healthd itself could have written: it
// is within the bounds, and reads the same when it is written again.
func FuzzRecords(f *testing.F) {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	event := &core.Event{Time: moment, Container: "web-1", Reason: core.EventUnhealthy, Message: "Readiness probe failed: <html>\u2028", Count: 3, First: moment.Add(-time.Hour)}
	memory := core.Memory{
		Facts: core.Facts{
			ID: "web-1", Name: "web", Runtime: "docker", Identity: "docker/web", Image: "sha256:1", Gone: moment,
			Kept: &core.Kept{
				Engine: core.Engine{State: "running", Resources: "memory=1"},
				Run:    core.Run{StartedAt: moment, BeganAt: moment, Died: true, DiedCode: 137, Exit: core.Exit{Code: 1, Reason: core.ReasonError, FinishedAt: moment}},
				Action: core.Action{Stopping: core.ByLiveness, StopCalls: 1, Grace: time.Second, NotBefore: moment},
			},
		},
		Written: core.Stamp{Wall: moment, Monotonic: time.Hour, Boot: "boot-1"},
		Gates:   []core.Gate{{Type: "load", Status: true, At: moment}},
		Granted: []time.Time{moment, moment.Add(time.Minute)},
	}
	for _, v := range []any{event, memory, "boot-1", moment, version} {
		for kind := range byte(3) {
			record, err := encode("web-1", v)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(kind, uint64(7), "web-1", string(record[checksum:]))
		}
	}
	f.Add(byte(1), uint64(0), "a", `{"id":"a","alive":true,"restarts":[0,1,2],"killDue":"2026-01-02T03:04:05Z","grace":5}`) // of version 1
	f.Add(byte(1), uint64(0), "a", `{"version":3,"id":"a"}`)
	f.Add(byte(1), uint64(0), "", `{"version":2,"id":""}`) // no file has such a key
	f.Add(byte(0), uint64(1), "", `{"time":"9999-12-31T23:59:59-23:59","container":"\ud800"}`)
	f.Add(byte(2), uint64(0), "docker", `"0000-01-01T00:00:00+23:59"`)
	f.Add(byte(2), uint64(0), "docker", `"0000-01-01T00:00:00+24:59"`)
	f.Add(byte(0), uint64(1), "", `{"message":"`+strings.Repeat("ä", maxText)+`"}`)
	for _, v := range []string{"0", "-1", "1", "3"} {
		f.Add(byte(2), uint64(0), "docker", v)
	}
	f.Fuzz(func(t *testing.T, kind byte, number uint64, key, text string) {
		switch kind % 3 {
		case 0:
			checkEventRecord(t, number, text)
		case 1:
			checkMemoryRecord(t, key, text)
		default:
			checkMetaRecords(t, key, text)
		}
		checkSum(t, key, text, int(number%1024))
	})
}

// hasOddZone says that a time is of a zone 24 hours from UTC or more, which Go's JSON reads but does not
// write. healthd has no such times.
func hasOddZone(err error) bool {
	return err != nil && strings.Contains(err.Error(), "timezone hour outside of range")
}

// checkSum checks that no changed byte, nor a record in another's place, is taken.
func checkSum(t *testing.T, key, text string, at int) {
	t.Helper()
	good := sealed(key, text)
	if decode(key+"x", good, new(any)) != errSum {
		t.Errorf("%q was taken under another key than %q", text, key)
	}
	good[at%len(good)] ^= 0x10
	if decode(key, good, new(any)) != errSum {
		t.Errorf("a flipped bit at %d of %q was taken", at, text)
	}
}

func checkEventRecord(t *testing.T, number uint64, text string) {
	t.Helper()
	key := eventKey(number)
	ev, ok := readOneEvent(t, key, sealed(key, text))
	if !ok {
		return
	}
	for _, s := range []string{ev.Container, ev.Reason, ev.Message} {
		if len(s) > maxText || !utf8.ValidString(s) {
			t.Errorf("a text of %d bytes: %q", len(s), s)
		}
	}
	record, err := encode(key, &ev.Event)
	if hasOddZone(err) {
		return
	}
	if err != nil || len(key)+len(record) > ev.bytes || ev.bytes > maxHistory {
		t.Fatalf("%q is read as %+v, and counts %d: %v", text, ev.Event, ev.bytes, err)
	}
	again, ok := readOneEvent(t, key, record)
	if !ok || !sameEvent(&ev.Event, &again.Event) {
		t.Errorf("%+v is written as %q, and read as %+v", ev.Event, record, again)
	}
}

// readOneEvent reads a record into an empty file content, which then has that event or says that it
// lacks it.
func readOneEvent(t *testing.T, key string, record []byte) (*kept, bool) {
	t.Helper()
	c := fileContent{events: newHistory()}
	if err := c.readEvent([]byte(key), record); err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(c.events.of(""))
	if len(all)+len(c.unreadable) != 1 || len(c.outdated) > 0 {
		t.Fatalf("%d events, unreadable %v, outdated %v", len(all), c.unreadable, c.outdated)
	}
	if len(all) == 0 {
		if c.unreadable[0] != (recordKey{eventsBucket, key}) || c.last != 0 {
			t.Errorf("unreadable is %v, and the last one %d", c.unreadable, c.last)
		}
		return nil, false
	}
	if all[0].number != binary.BigEndian.Uint64([]byte(key)) || c.last != all[0].number {
		t.Errorf("event %x is number %d, and the last one %d", key, all[0].number, c.last)
	}
	return all[0], true
}

func sameEvent(a, b *core.Event) bool {
	return a.Time.Equal(b.Time) && a.First.Equal(b.First) && a.Container == b.Container && a.Reason == b.Reason && a.Message == b.Message && a.Count == b.Count
}

func checkMemoryRecord(t *testing.T, id, text string) {
	t.Helper()
	m := readOneMemory(t, id, sealed(id, text))
	if m == nil {
		return
	}
	_ = m.Action.Restart.String() + m.Action.Stopping.String() + m.Ending.Overtaken.String() // they index arrays
	checkMemoryKept(t, *m)
	// The next daemon, on a host that has been rebooted or not, moves its times and writes it again.
	now := core.Stamp{Wall: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), Monotonic: 2 * time.Hour, Boot: "boot-1"}
	later := now
	later.Wall, later.Monotonic = now.Wall.Add(time.Minute), now.Monotonic+time.Minute
	moved := m.FromFile(now)
	if moved.ID != m.ID || len(moved.Gates) != len(m.Gates) || len(moved.Granted) != len(m.Granted) {
		t.Errorf("%+v has become %+v", m, moved)
	}
	checkMemoryKept(t, moved.ForFile(later))
}

// checkMemoryKept checks that m is read as it is written.
func checkMemoryKept(t *testing.T, m core.Memory) {
	t.Helper()
	record, err := encode(m.ID, &m)
	if hasOddZone(err) {
		return
	}
	if err != nil {
		t.Fatalf("%+v cannot be written: %v", m, err)
	}
	again := readOneMemory(t, m.ID, record)
	if again == nil || again.Facts != m.Facts && !sameRecord(m.ID, again, record) {
		t.Fatalf("%q is read as %+v", record, again)
	}
	if !slices.EqualFunc(again.Gates, m.Gates, func(a, b core.Gate) bool { return a.Type == b.Type && a.Status == b.Status && a.At.Equal(b.At) }) ||
		!slices.EqualFunc(again.Granted, m.Granted, time.Time.Equal) || !again.Written.Wall.Equal(m.Written.Wall) || again.Written.Boot != m.Written.Boot {
		t.Errorf("%+v is written as %q, and read as %+v", m, record, again)
	}
}

// sameRecord says that m is written as record: times of other zones are not ==.
func sameRecord(key string, m *core.Memory, record []byte) bool {
	again, err := encode(key, m)
	return err == nil && bytes.Equal(again, record)
}

// readOneMemory is readOneEvent for a memory; nil: it cannot be read.
func readOneMemory(t *testing.T, id string, record []byte) *core.Memory {
	t.Helper()
	c := fileContent{memories: map[string]*core.Memory{}}
	if err := c.readMemory([]byte(id), record); err != nil {
		t.Fatal(err)
	}
	m := c.memories[id]
	if len(c.memories)+len(c.unreadable) != 1 || (m == nil) != (len(c.unreadable) == 1) {
		t.Fatalf("memories %v, unreadable %v", c.memories, c.unreadable)
	}
	if m == nil && c.unreadable[0] != (recordKey{memoriesBucket, id}) || m != nil && m.ID != id {
		t.Errorf("%q: unreadable %v, read %+v", id, c.unreadable, m)
	}
	return m
}

func checkMetaRecords(t *testing.T, name, text string) {
	t.Helper()
	for _, key := range []string{bootKey, bootPrefix + name, seenPrefix + name, versionKey, name} {
		c := fileContent{boots: map[string]string{}, seen: map[string]time.Time{}}
		if err := c.readMetadata([]byte(key), sealed(key, text)); err != nil {
			t.Fatal(err)
		}
		switch seen, ok := c.seen[name]; {
		case len(c.unreadable) > 0:
			if !slices.Equal(c.unreadable, []recordKey{{metaBucket, key}}) || len(c.seen) > 0 || len(c.boots) > 0 {
				t.Errorf("%q: unreadable %v, seen %v, boots %q", key, c.unreadable, c.seen, c.boots)
			}
		case ok && key == seenPrefix+name:
			var again time.Time
			if record, err := encode("k", seen); !hasOddZone(err) && (err != nil || decode("k", record, &again) != nil || !again.Equal(seen)) {
				t.Errorf("%q is read as %v, and again as %v: %v", text, seen, again, err)
			}
		case key != bootKey && key != versionKey && !strings.HasPrefix(key, seenPrefix) && !strings.HasPrefix(key, bootPrefix):
			t.Errorf("the unknown key %q was taken", key)
		}
	}
	checkVersionRecord(t, text)
}

// checkVersionRecord checks that a file is read whose version this healthd knows, and no other.
func checkVersionRecord(t *testing.T, text string) {
	t.Helper()
	var v int
	err := readVersion(sealed(versionKey, text))
	later, isLater := errors.AsType[newerVersion](err)
	switch bad := json.Unmarshal([]byte(text), &v); {
	case err == nil && bad == nil && v >= 1 && v <= version:
	case isLater && int(later) == v && v > version:
	case errors.Is(err, errDamaged) && (bad != nil || v < 1):
	default:
		t.Errorf("version %q: got %v", text, err)
	}
}
