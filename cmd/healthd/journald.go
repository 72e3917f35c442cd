package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"healthd/supervisor"
)

// journaldSocket is where journald takes entries with fields.
const journaldSocket = "/run/systemd/journal/socket"

// Bounds of an entry, in bytes. Longer texts are cut.
const (
	maxJournalMessage = 48 << 10
	maxJournalField   = 4 << 10
)

// journaldCore writes entries to journald with fields of their own, so that journalctl finds those
// of a container. Without journald's socket they go to stderr, with their level in front.
type journaldCore struct {
	zapcore.LevelEnabler
	text    zapcore.Encoder // of all but events
	with    []zapcore.Field
	to      *journald
	queue   *logQueue
	instead io.Writer
}

// With implements zapcore.Core.
func (c journaldCore) With(fields []zapcore.Field) zapcore.Core {
	c.text = c.text.Clone()
	for _, f := range fields {
		f.AddTo(c.text)
	}
	c.with = append(c.with[:len(c.with):len(c.with)], fields...)
	return c
}

// Check implements zapcore.Core.
func (c journaldCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c journaldCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	known := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.with[:len(c.with):len(c.with)], fields...) {
		f.AddTo(known)
	}
	message, isEvent := eventText(e, known.Fields)
	if !isEvent {
		text, err := c.text.EncodeEntry(e, fields)
		if err != nil {
			return err
		}
		message = strings.TrimSuffix(text.String(), "\n")
		text.Free()
	}
	level := int(priority(e.Level))
	entry := entryOf(level, message, known.Fields)
	c.queue.put(len(entry)+len(message), func() error { return c.send(level, message, entry) })
	return nil
}

// send writes an entry, or what it says to stderr.
func (c journaldCore) send(level int, message string, entry []byte) error {
	err := c.to.send(entry)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err // stderr leads to the same journald, and would wait
	}
	_, err = fmt.Fprintf(c.instead, "<%d>%s\n", level, message)
	return err
}

// Sync waits until journald has read everything, a second at most: it looks up whose an entry is
// while the process is still there.
func (c journaldCore) Sync() error {
	if err := c.queue.flush(logPatience); err != nil {
		return err
	}
	return c.to.drain(time.Second)
}

// eventText is an event of the history in one line.
func eventText(e zapcore.Entry, fields map[string]any) (string, bool) {
	reason, ok := fields["reason"].(string)
	message, is := fields["message"].(string)
	if !ok || !is || e.Message != "event" {
		return "", false
	}
	text := reason + ": " + message
	if container, ok := fields["container"].(string); ok {
		text = container + ": " + text
	}
	if count, ok := fields["count"].(int64); ok {
		text += fmt.Sprintf(" (%d times)", count)
	}
	return text, true
}

// journalFields are the fields of journald's entries by those of the log.
var journalFields = []struct{ field, of string }{
	{"CONTAINER", "container"}, {"PROBE", "probe"}, {"REASON", "reason"},
	{"SERVICE", "service"}, {"RUNTIME", "runtime"}, {"SPEC", "spec"},
}

// entryOf returns an entry in journald's native protocol. Texts are of containers, and may have
// line breaks: each value has its length in front.
func entryOf(priority int, message string, fields map[string]any) []byte {
	b := fmt.Appendf(nil, "PRIORITY=%d\nSYSLOG_IDENTIFIER=healthd\n", priority)
	b = appendField(b, "MESSAGE", message, maxJournalMessage)
	for _, f := range journalFields {
		if value, ok := fields[f.of].(string); ok && value != "" {
			b = appendField(b, f.field, value, maxJournalField)
		}
	}
	return b
}

func appendField(b []byte, name, value string, most int) []byte {
	value = line(strings.ToValidUTF8(value[:min(len(value), most)], "?"))
	b = append(append(b, name...), '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	return append(append(b, value...), '\n')
}

// journald sends entries to journald. It waits for a journald that does not read, once for
// journaldPatience, and then for no more than journaldImpatience until it reads again.
type journald struct {
	path string

	mu   sync.Mutex
	conn *net.UnixConn // nil: not connected
	slow bool          // the last entry was lost
}

const (
	journaldPatience   = time.Second
	journaldImpatience = 5 * time.Millisecond
)

// send sends one entry. It returns os.ErrDeadlineExceeded when the entry is lost. With a connection that is broken, as
// after a restart of journald's socket, it connects anew, once.
func (j *journald) send(entry []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.conn != nil
	err := j.write(entry)
	if old && j.conn == nil {
		err = j.write(entry)
	}
	return err
}

// write needs mu.
func (j *journald) write(entry []byte) error {
	if j.conn == nil {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.path, Net: "unixgram"})
		if err != nil {
			return err
		}
		_ = conn.SetWriteBuffer(8 << 20)
		j.conn = conn
	}
	limit := journaldPatience
	if j.slow {
		limit = journaldImpatience
	}
	err := j.conn.SetWriteDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = j.conn.Write(entry)
	}
	j.slow = errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil && !j.slow {
		_ = j.conn.Close()
		j.conn = nil
	}
	return err
}

// drain waits until everything is read.
func (j *journald) drain(most time.Duration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn == nil {
		return nil
	}
	raw, err := j.conn.SyscallConn()
	if err != nil {
		return err
	}
	const pause = 2 * time.Millisecond
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(pause) {
		unread := 0
		if err := raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			return err
		}
		if err != nil || unread == 0 {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// newJournaldLogger returns a logger for a daemon whose stderr is journald's. It writes through the queue, which the
// caller closes.
func newJournaldLogger(level zapcore.Level, socket string, stderr io.Writer) (*zap.Logger, *logQueue) {
	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.LevelKey, c.ConsoleSeparator = "", "", " "
	c.EncodeDuration = zapcore.StringDurationEncoder
	core := journaldCore{
		LevelEnabler: level, text: zapcore.NewConsoleEncoder(c), to: &journald{path: socket}, instead: supervisor.Escaping{To: stderr},
	}
	core.queue = newLogQueue(func(lost int) error {
		warning := int(priority(zapcore.WarnLevel))
		return core.send(warning, lossText(lost), entryOf(warning, lossText(lost), nil))
	})
	return zap.New(core), core.queue
}
