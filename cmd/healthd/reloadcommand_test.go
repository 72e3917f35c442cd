package main

import (
	"strings"
	"testing"

	"healthd/runtime/docker/dockertest"
)

// Whoever reloads learns what came of it, and whoever looks later, too.
func TestReloadCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "reloaded", Labels: map[string]string{"app": "aa"}})
	p := startDaemon(t, engine.Endpoint, specFor("aa"))
	p.notify.await(t, "READY=1")

	p.configure(t, specFor("aa")+"[[spec]]\nname = 3\nmtach = {}\n")
	broken := healthd(t, "reload", "--config", p.config)
	if broken.code != 1 || broken.stdout != "" || strings.Count(broken.stderr, "\n") != 3 ||
		!strings.Contains(broken.stderr, p.config+":19: spec[#2].mtach: unknown key, did you mean \"match\"?\n") ||
		!strings.Contains(broken.stderr, "healthd: cannot reload: the configuration was not reloaded, nothing changes: it has 2 problems\n") {
		t.Errorf("a broken configuration: %+v", broken)
	}
	if got := healthd(t, "check", "--config", p.config); got.code != 1 {
		t.Errorf("check: %+v", got)
	}
	const refused = "changed nothing (not reloaded: 2 problems in the configuration, see the log)"
	if got := healthd(t, "status", "--config", p.config); got.code != 0 || !strings.Contains(oneLine(got.stdout+got.stderr), refused) {
		t.Errorf("status: %+v", got)
	}
	if _, body := p.get(t, "/metrics"); !strings.Contains(body, "\nhealthd_config_last_reload_successful 0\n") || !strings.Contains(body, "\nhealthd_config_last_reload_timestamp_seconds 1.") {
		t.Errorf("metrics: %s", body)
	}

	p.configure(t, specFor("aa")+specFor("bb")+"[log]\nlevel = \"debug\"\n")
	mended := healthd(t, "reload", "--config", p.config)
	if mended.code != 0 || mended.stdout != "the configuration was reloaded: 2 specs\n" ||
		!strings.Contains(mended.stderr, "warning: a change of log.level counts after a restart of healthd") {
		t.Errorf("a mended configuration: %+v", mended)
	}
	if got := healthd(t, "status", "--config", p.config); strings.Contains(oneLine(got.stdout+got.stderr), refused) {
		t.Errorf("status after that: %+v", got)
	}
	if _, body := p.get(t, "/metrics"); !strings.Contains(body, "\nhealthd_config_last_reload_successful 1\n") {
		t.Errorf("metrics: %s", body)
	}
	p.configure(t, "")
	none := healthd(t, "reload", "--config", p.config)
	const left = "no longer supervised: 1 container (reloaded)"
	if none.code != 0 || none.stdout != "the configuration was reloaded: 0 specs\n" || !strings.Contains(none.stderr, "warning: "+left+"\n") {
		t.Errorf("no spec left: %+v", none)
	}
	if got := healthd(t, "events", "--config", p.config); !strings.Contains(oneLine(got.stdout), left) {
		t.Errorf("events: %+v", got)
	}
	events := healthd(t, "events", "-o", "json", "--config", p.config)
	if failed, done := strings.Index(events.stdout, `"ReloadFailed"`), strings.Index(events.stdout, `"Reloaded"`); failed < 0 || done < failed {
		t.Errorf("events: %+v", events)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
