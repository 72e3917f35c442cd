package configs

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The daemon's mode is over a spec's, and over what a label says.
func TestObserve(t *testing.T) {
	const spec = "[[spec]]\nname = \"a\"\nlifecycle = { pre_stop = { sleep = { duration = \"1s\" } } }\n"
	for _, tt := range []struct {
		file, label   string
		want          bool
		value, origin string
	}{
		{spec, "", false, `"enforce"`, "default"},
		{spec + "mode = \"observe\"\n", "", true, `"observe"`, "healthd.toml:4"},
		{spec + "mode = \"observe\"\n", "enforce", false, `"enforce"`, "label healthd.mode"},
		{spec, "observe", true, `"observe"`, "label healthd.mode"},
		{"[daemon]\nmode = \"observe\"\n" + spec, "", true, `"observe"`, "healthd.toml:2"},
		{"[daemon]\nmode = \"observe\"\n" + spec, "enforce", true, `"observe"`, "healthd.toml:2"},
	} {
		of := labels("healthd.spec=a")
		if tt.label != "" {
			of["healthd.mode"] = tt.label
		}
		got, err := mustParse(t, tt.file).Resolve(runtime.Traits{Name: "c", Labels: of})
		if err != nil {
			t.Fatal(err)
		}
		value, origin := "", ""
		for _, v := range got.Settings() {
			if v.Path == "mode" {
				value, origin = v.Value, v.Origin
			}
		}
		if got.Observe != tt.want || value != tt.value || origin != tt.origin || (got.Lifecycle.PreStop == nil) != tt.want {
			t.Errorf("%s with the label %q: %v, %s from %s, pre_stop %v", tt.file, tt.label, got.Observe, value, origin, got.Lifecycle.PreStop)
		}
	}
}

func TestGiveUp(t *testing.T) {
	for text, want := range map[string]core.GiveUp{
		"":                           {},
		"give_up = { restarts = 3 }": {Restarts: 3, Within: time.Hour},
		"give_up = { restarts = 100, within = \"90s\" }": {Restarts: 100, Within: 90 * time.Second},
	} {
		if got := resolveText(t, text).GiveUp; got != want {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	if got := resolveText(t, "", "healthd.give_up.restarts=2", "healthd.on_failure=none"); got.GiveUp.Restarts != 2 || got.OnFailure != core.TellFailed {
		t.Errorf("by label: got %+v, %s", got.GiveUp, got.OnFailure)
	}
}
