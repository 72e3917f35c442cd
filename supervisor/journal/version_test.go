package journal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// testdata/journal-v1.db was written by healthd at 5a29fff, before the state of a
// container had groups. What stands here is what was put into it then.
func TestVersion1IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/journal-v1.db")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"as it was written", "written again"} {
		j := open(t, dir)
		got := j.Memories()
		for i, want := range version1() {
			if i >= len(got) || toMilliseconds(t, *got[i]) != toMilliseconds(t, want) {
				t.Errorf("%s: memory %d is\n%+v, want\n%+v", when, i, got[i:min(i+1, len(got))], want)
			}
		}
		if len(got) != len(version1()) {
			t.Errorf("%s: %d memories, want %d", when, len(got), len(version1()))
		}
		if events := j.Events("", time.Time{}); len(events) != 2 || events[0].Reason != core.EventKilling || !events[1].Time.Equal(v1Time(9)) {
			t.Errorf("%s: the events are %v", when, events)
		}
		if !j.Seen("docker").Equal(v1Time(59)) || j.Boot("docker") != "6f1e3a52-0000-4000-8000-000000000001" {
			t.Errorf("%s: seen %v, boot %s", when, j.Seen("docker"), j.Boot("docker"))
		}
		for _, m := range got {
			j.Remember(m)
		}
		if err := run(t, j)(); err != nil {
			t.Fatal(err)
		}
		j.Close()
	}
}

// toMilliseconds returns what a file holds of m. Times of healthd's own are kept in relation
// to the present, which takes some microseconds to tell by two clocks.
func toMilliseconds(t *testing.T, m core.Memory) string {
	m.Written = core.Stamp{}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(\.\d{3})\d*Z`).ReplaceAllString(string(text), "${1}Z")
}

func v1Time(second int) time.Time {
	return time.Date(2026, 11, 1, 12, 0, second, 123456789, time.UTC)
}

func v1Run(id string, second int) runtime.Run {
	return runtime.Run{ID: id, Started: v1Time(second).UnixNano()}
}

func version1() []core.Memory {
	at, run := v1Time, v1Run
	ready := func(status bool, second int) core.Condition {
		return core.Condition{Status: status, Since: at(second)}
	}
	return []core.Memory{
		{Facts: core.Facts{
			ID: "aaaa", Name: "all-1", Runtime: "docker", Identity: "shop/all/1", Image: "sha256:1", DroppedByReload: true,
			Kept: &core.Kept{
				Engine: core.Engine{State: runtime.Running, Resources: "cpu=1"},
				Run: core.Run{
					ID: run("aaaa", 1), Before: run("aaaa", 0), StartedAt: at(1), Hooks: [2]core.HookState{core.HookDone, core.HookRunning}, Died: true,
					Exit:     core.Exit{Code: 3, Reason: core.ReasonLivenessFailed, StartedAt: at(1), FinishedAt: at(4)},
					LastExit: core.Exit{Code: 4, Reason: core.ReasonOOMKilled, StartedAt: at(0), FinishedAt: at(1)},
				},
				Action: core.Action{
					Stopping: core.ByLiveness, StopCalls: 2, Grace: 7 * time.Second, Restart: core.ByStartup, NotBefore: at(6), Call: core.StartCall,
				},
				Ending: core.Ending{
					OwnSignals: 1, OwnAt: at(5).Add(100*time.Millisecond - 7*time.Second), First: at(7), Heard: [4]int64{at(8).UnixNano()}, ForgetAt: at(9), Survived: true, MaybeEngine: true,
				},
				Conditions: core.Conditions{Started: ready(true, 2), ContainerReady: ready(true, 3), Ready: ready(true, 3)},
				Lasting: core.Lasting{
					Backoff: core.BackoffState{Active: true, Delay: 40 * time.Second}, Restarts: [7]int{0, 1, 2, 3, 4, 5, 6}, HeldHere: true, HeldHereUntil: at(10),
				},
			},
			ReadinessSucceeded: true, Down: core.Outage{Run: run("aaaa", 1), Since: at(11)},
		}, Gates: []core.Gate{{Type: "example.com/warm", Status: true, At: at(12)}, {Type: "ok", At: at(13)}}, Granted: []time.Time{at(11), at(14)}},
		{Facts: core.Facts{
			ID: "bbbb", Name: "web-1", Runtime: "docker", Identity: "shop/web/1", Image: "sha256:2",
			Kept: &core.Kept{
				Engine:     core.Engine{State: runtime.Running},
				Run:        core.Run{ID: run("bbbb", 20), StartedAt: at(20), Hooks: [2]core.HookState{core.HookDone, core.HookIdle}},
				Conditions: core.Conditions{Started: ready(true, 21), ContainerReady: ready(true, 22), Ready: ready(true, 22)},
			},
			ReadinessSucceeded: true,
		}},
		{Facts: core.Facts{
			ID: "cccc", Name: "db", Runtime: "docker", Identity: "db",
			Kept: &core.Kept{
				Engine: core.Engine{State: runtime.Exited},
				Run: core.Run{
					ID: run("cccc", 30), StartedAt: at(30),
					Exit: core.Exit{Code: 143, Reason: core.ReasonStoppedByOperator, StartedAt: at(30), FinishedAt: at(32)},
				},
				Ending:     core.Ending{First: at(32), Heard: [4]int64{at(32).UnixNano()}, ForgetAt: at(52), By: core.EndedByOperator},
				Conditions: core.Conditions{Started: ready(true, 30), ContainerReady: ready(false, 31), Ready: ready(false, 31)},
			},
		}},
		{Facts: core.Facts{
			ID: "dddd", Name: "worker", Runtime: "docker", Identity: "worker",
			Kept: &core.Kept{
				Engine: core.Engine{State: runtime.Exited},
				Run: core.Run{
					ID: run("dddd", 40), Before: run("dddd", 35), StartedAt: at(40),
					Exit:     core.Exit{Code: 1, Reason: core.ReasonError, StartedAt: at(40), FinishedAt: at(42)},
					LastExit: core.Exit{Code: 1, Reason: core.ReasonError, StartedAt: at(35), FinishedAt: at(36)},
				},
				Action:     core.Action{Restart: core.ByExit, NotBefore: at(62)},
				Ending:     core.Ending{By: core.EndedByItself},
				Conditions: core.Conditions{Started: ready(true, 40), ContainerReady: ready(false, 41), Ready: ready(false, 41)},
				Lasting:    core.Lasting{Backoff: core.BackoffState{Active: true, Delay: 20 * time.Second}, Restarts: [7]int{core.ByExit: 2}},
			},
		}},
		{Facts: core.Facts{
			ID: "eeee", Name: "api", Runtime: "docker", Identity: "api",
			Kept: &core.Kept{
				Engine:     core.Engine{State: runtime.Running},
				Run:        core.Run{ID: run("eeee", 50), StartedAt: at(50)},
				Action:     core.Action{Stopping: core.ByLiveness, StopCalls: 1, Grace: 10 * time.Second, NotBefore: at(53)},
				Ending:     core.Ending{OwnSignals: 1, OwnAt: at(49).Add(100 * time.Millisecond)},
				Conditions: core.Conditions{Started: ready(true, 50), ContainerReady: ready(false, 53), Ready: ready(false, 53)},
			},
		}},
		{Facts: core.Facts{
			ID: "ffff", Name: "old", Runtime: "docker", Identity: "old", Gone: at(58),
			Kept: &core.Kept{
				Engine: core.Engine{State: runtime.Exited},
				Run: core.Run{
					ID: run("ffff", 51), StartedAt: at(51),
					Exit: core.Exit{Code: 0, Reason: core.ReasonCompleted, StartedAt: at(51), FinishedAt: at(57)},
				},
				Ending:  core.Ending{By: core.EndedByItself},
				Lasting: core.Lasting{Restarts: [7]int{core.ByLiveness: 9}},
			},
		}},
	}
}
