package configs

import (
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

const (
	postStart = "post_start"
	preStop   = "pre_stop"
)

func hookKeys() []string { return []string{postStart, preStop} }

// hookHandlerKeys are the keys of a hook of which it must have exactly one.
func hookHandlerKeys() []string {
	return []string{"http_get", "tcp_socket", "exec", "sleep"}
}

func (s *specReader) lifecycle(t *table) core.Lifecycle {
	l := core.Lifecycle{
		PostStart: s.hook(t.sub(postStart), s.postStartSleep),
		PreStop:   s.hook(t.sub(preStop), s.preStopSleep),
	}
	t.done()
	return l
}

func (s *specReader) hook(t *table, sleep func(*table) time.Duration) *prober.LifecycleHandler {
	if t.n == nil {
		return nil
	}
	h := &prober.LifecycleHandler{}
	t.exactlyOne(hookHandlerKeys(), func(key string) {
		sub := t.sub(key)
		switch key {
		case "http_get":
			sub.forbid("expect", "must not be set on a hook, which succeeds with any reply")
			sub.forbid("connection", "must not be set on a hook, which asks once")
			h.HTTPGet = s.httpGet(sub)
		case "tcp_socket":
			h.TCPSocket = s.tcpSocket(sub)
		case "exec":
			h.Exec = &prober.Exec{Command: sub.command("command")}
		case "sleep":
			h.Sleep = &prober.Sleep{}
			if !sub.missing("duration") {
				h.Sleep.Duration = sleep(sub)
			}
		}
		sub.done()
	})
	t.done()
	return h
}

// postStartSleep reads a sleep that ends before the hook is given up.
func (s *specReader) postStartSleep(t *table) time.Duration {
	return t.duration("duration", 0, span[time.Duration]{0, core.PostStartTimeout})
}

// preStopSleep reads a sleep that must fit into the grace period, which it shares
// with the stop. How long that is without the spec's, only the container says.
func (s *specReader) preStopSleep(t *table) time.Duration {
	d := t.duration("duration", 0, durations(0))
	if s.grace == 0 || d <= s.grace {
		return d
	}
	n := t.n.fields["duration"]
	if s.graceAt.at.fromLabel() && !n.at.fromLabel() {
		// The label is to blame, not the file, which was right without it.
		t.wrong(s.graceAt, "termination_grace_period", "must be at least %s (%s), is %s",
			t.at("duration"), bareDuration(d), showDuration(s.grace))
		return d
	}
	t.wrong(n, t.at("duration"), "must be at most termination_grace_period (%s), is %s", bareDuration(s.grace), showDuration(d))
	return d
}
