package importer

import (
	"cmp"
	"fmt"
	"time"

	"healthd/supervisor/core"
)

// Nomad's defaults, which its API spells out.
const (
	nomadKillTimeout = 5 * time.Second
	nomadDelay       = 15 * time.Second
)

// nomadRestarts is how often Nomad restarts a task within how long where the job does not say so.
func nomadRestarts(kind string) (attempts int, interval time.Duration) {
	if kind == "service" || kind == "system" {
		return 2, 30 * time.Minute
	}
	return 3, 24 * time.Hour
}

// exits carries over what follows the end of a task.
func (t *nomadTask) exits() {
	own := t.spec.own
	policy := core.Always
	if t.kind != "service" && t.kind != "system" {
		policy = core.OnFailure
	}
	r := t.task.first("restart").over(t.group.first("restart"))
	attempts, interval := nomadRestarts(t.kind)
	if n, ok := r.number(own, "attempts"); ok {
		attempts = n
	}
	if d, ok := r.duration(own, "interval"); ok {
		interval = d
	}
	mode, _ := r.text(own, "mode")
	if attempts == 0 {
		policy = core.Never
	}
	own.text("restart_policy", string(policy)).because("of a %s job", cmp.Or(t.kind, "?"))
	switch {
	case attempts == 0:
	case mode == "delay":
		own.lost("restart.mode = delay (%s): after %d restarts Nomad waits for the next interval. healthd's back-off grows instead, and give_up ends restarts.", r.where("mode"), attempts)
	case t.kind == "service" && !r.has("attempts") && !r.has("interval"): // Nomad reschedules it for ever
	default:
		i := inline{}
		i.set("restarts", fmt.Sprint(attempts))
		i.set("within", quote(showDuration(interval)))
		own.set("give_up", i.String()).because("restart.attempts within restart.interval; Nomad would then look for another host")
	}
	if delay, ok := r.duration(own, "delay"); ok {
		b := t.spec.table("backoff")
		b.duration("initial", delay).because("Nomad's delay does not grow; the first restart here is at once")
		b.duration("max", delay)
	}
	r.lostAttrs(own, "attempts", "interval", "mode", "delay", "render_templates")
}

// ends carries over how a task is stopped.
func (t *nomadTask) ends() {
	own := t.spec.own
	if kill, ok := t.task.duration(own, "kill_timeout"); ok {
		own.duration("termination_grace_period", kill).because("kill_timeout")
	}
	if signal, ok := t.task.text(own, "kill_signal"); ok {
		own.lost("kill_signal = %s (%s): Docker sends the stop signal: set it with stop_signal in Compose, or docker run --stop-signal", signal, t.task.where("kill_signal"))
	}
	if t.task.boolean(own, "leader") {
		own.lost("leader (%s): Nomad stops the other tasks of the group when it ends; healthd does not", t.task.where("leader"))
	}
	drain, _ := t.task.duration(own, "shutdown_delay")
	if more, ok := t.group.duration(own, "shutdown_delay"); ok {
		drain += more
	}
	if drain > 0 {
		t.spec.table("publish").duration("drain", drain).because("shutdown_delay")
	}
}
