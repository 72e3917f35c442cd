package api

import (
	"encoding/json"
	"testing"

	"healthd/supervisor/core"
)

// enginePolicy names the policy, and is absent when the engine never restarts the container.
func TestEnginePolicyInStatus(t *testing.T) {
	for policy, want := range map[string]any{"": nil, "no": nil, "on-failure": "on-failure", "unless-stopped": "unless-stopped"} {
		for _, v := range []*core.View{readyContainer("web-1"), invalidContainer("web-1")} {
			v.Container.RestartPolicy = policy
			a, _, _ := newAPI(v)
			var got map[string]any
			if err := json.Unmarshal(get(t, a.ReadOnly(), "/v1/containers/web-1").Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got["enginePolicy"] != want {
				t.Errorf("%q: %v, want %v", policy, got["enginePolicy"], want)
			}
		}
	}
}
