package systemd

import (
	"os"
	"testing"

	text "github.com/coreos/go-systemd/v22/unit"
)

// What the program relies on stands in the unit. What systemd makes of it, TestUnit sees on a machine.
func TestUnitText(t *testing.T) {
	f, err := os.Open(unit + ".in")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := text.DeserializeOptions(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range options {
		got[o.Section+"."+o.Name] = o.Value
	}
	for name, want := range map[string]string{
		"Unit.StartLimitIntervalSec":       "0",
		"Service.Type":                     "notify",
		"Service.NotifyAccess":             "main",
		"Service.ExecStart":                "@BINDIR@/healthd run",
		"Service.ExecReload":               "@BINDIR@/healthd reload",
		"Service.Restart":                  "always",
		"Service.RestartPreventExitStatus": "78 217 216",
		"Service.WatchdogSec":              "30s",
		"Service.TimeoutStopSec":           "10min",
		"Service.KillMode":                 "mixed",
		"Service.RuntimeDirectory":         "healthd",
		"Service.RuntimeDirectoryPreserve": "restart",
		"Service.StateDirectory":           "healthd",
		"Service.CapabilityBoundingSet":    "CAP_DAC_OVERRIDE CAP_KILL",
		"Service.NoNewPrivileges":          "yes",
		"Service.ProtectSystem":            "strict",
		"Install.WantedBy":                 "multi-user.target",
	} {
		if got[name] != want {
			t.Errorf("%s=%s, want %s", name, got[name], want)
		}
	}
}
