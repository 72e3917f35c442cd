package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

func TestCertificateExpiry(t *testing.T) {
	v := readyContainer("web-1")
	addProbe(v, core.Readiness, core.ProbeState{Result: prober.Success, Outcome: prober.Success, Run: 1, LastAt: at(20)})
	for _, want := range []string{"", `"certificateExpiry":"` + at(60).UTC().Format("2006-01-02T15:04:05Z07:00") + `"`} {
		if want != "" {
			v.State.Certificates[core.Readiness] = &core.Certificate{NotAfter: at(60)}
		}
		text, err := json.Marshal(newStatus(v, time.Now()).Probes["readiness"])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) || strings.Contains(string(text), "certificateExpiry") != (want != "") {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}
