package journal

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"healthd/supervisor/core"
)

// Log writes each event once to log until ctx ends, and then the rest. It begins after
// the events of earlier daemons. It is a reader like any other: a log that blocks does
// not block Record.
func (j *Journal) Log(ctx context.Context, log *zap.Logger) {
	seen := j.openedSeq
	for done := false; ; {
		events, last, more := j.After(seen)
		if missed := last - seen - uint64(len(events)); missed > 0 {
			log.Warn("events were lost to the log, which was too slow", zap.Uint64("count", missed))
		}
		for _, ev := range events {
			logEvent(log, ev)
		}
		seen = last
		if done && len(events) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			done = true
		case <-more:
		}
	}
}

func logEvent(log *zap.Logger, ev core.Event) {
	entry := log.Check(level(ev.Reason), "event")
	if entry == nil {
		return
	}
	fields := []zap.Field{zap.String("reason", ev.Reason), zap.String("message", ev.Message)}
	for _, f := range []struct{ name, value string }{
		{"container", ev.Container}, {"probe", ev.Probe}, {"service", ev.Service}, {"runtime", ev.Runtime},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, f.value))
		}
	}
	if ev.Count > 0 {
		fields = append(fields, zap.Int("count", ev.Count), zap.Time("first", ev.First))
	}
	entry.Write(fields...)
}

// level is error when healthd itself is impaired, warn for events that an operator may
// have to look into: those of failures, by their names, and of what containers do.
func level(reason string) zapcore.Level {
	switch reason {
	case EventJournalFailed, EventJournalDamaged:
		return zapcore.ErrorLevel
	case core.EventUnhealthy, core.EventProbeWarning, core.EventProbeLate, core.EventKilling, core.EventBackOff, core.EventExited, core.EventOOMKilled,
		core.EventEngineGaveUp, core.EventInvalid, core.EventGaveUp, core.EventWouldRestart:
		return zapcore.WarnLevel
	}
	if strings.HasPrefix(reason, "Failed") || slices.ContainsFunc(failures, func(word string) bool { return strings.HasSuffix(reason, word) }) {
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

// failures end the reasons of events that say that something does not work.
var failures = []string{"Failed", "Lost", "Error", "Refused", "Damaged", "Incomplete", "Suspect"}
