package main

import (
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"healthd/configs"
	"healthd/supervisor"
)

// newLogger returns a logger that writes to f as configured, or to journald if that is behind f. It does so through the
// queue, which the caller closes.
func newLogger(c configs.Log, f *os.File) (*zap.Logger, *logQueue, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, nil, err
	}
	if is, err := journal.StderrIsJournalStream(); err == nil && is && f == os.Stderr && (c.Format == "auto" || c.Format == "journal") {
		log, queue := newJournaldLogger(level, journaldSocket, f)
		return log, queue, nil
	}
	encoder := newEncoder(c.Format, f)
	queue := newLogQueue(func(lost int) error {
		text, err := encoder.Clone().EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: lossText(lost)}, nil)
		if err != nil {
			return err
		}
		defer text.Free()
		_, err = f.Write(text.Bytes())
		return err
	})
	return zap.New(zapcore.NewCore(encoder, queuedWriter{queue, supervisor.Escaping{To: f}}, level)), queue, nil
}

func newEncoder(format string, f *os.File) zapcore.Encoder {
	if format == "auto" {
		format = autoFormat(f)
	}
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncodeDuration = zapcore.StringDurationEncoder
	switch format {
	case "console":
		c.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		return zapcore.NewConsoleEncoder(c)
	case "journal":
		c.TimeKey, c.LevelKey = "", ""
		c.ConsoleSeparator = " "
		return journalEncoder{zapcore.NewConsoleEncoder(c), buffer.NewPool()}
	}
	return zapcore.NewJSONEncoder(c)
}

func autoFormat(f *os.File) string {
	if is, err := journal.StderrIsJournalStream(); err == nil && is {
		return "journal"
	}
	if term.IsTerminal(int(f.Fd())) {
		return "console"
	}
	return "json"
}

// journalEncoder puts the level in front of each line, as the journal reads it
// from the stderr of a service. It adds the time itself.
type journalEncoder struct {
	zapcore.Encoder
	buffers buffer.Pool
}

// Clone implements zapcore.Encoder.
func (e journalEncoder) Clone() zapcore.Encoder {
	return journalEncoder{e.Encoder.Clone(), e.buffers}
}

// EncodeEntry implements zapcore.Encoder.
func (e journalEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	text, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return nil, err
	}
	defer text.Free()
	b := e.buffers.Get()
	b.AppendByte('<')
	b.AppendInt(int64(priority(entry.Level)))
	b.AppendByte('>')
	_, err = b.Write(text.Bytes())
	return b, err
}

func priority(l zapcore.Level) journal.Priority {
	switch {
	case l >= zapcore.ErrorLevel:
		return journal.PriErr
	case l == zapcore.WarnLevel:
		return journal.PriWarning
	case l == zapcore.InfoLevel:
		return journal.PriInfo
	}
	return journal.PriDebug
}
