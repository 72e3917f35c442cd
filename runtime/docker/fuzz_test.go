package docker

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"healthd/runtime"
)

// What an engine answers, in which labels, names and outputs of containers are, is read without a panic,
// and gives nothing that healthd must not act upon.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"Id":"x","Name":"/web","State":{"Status":"running","Pid":7,"StartedAt":"2026-01-02T03:04:05.6Z"},"HostConfig":{"NetworkMode":"bridge"},`+
		`"Config":{"StopTimeout":10,"StopSignal":"3","Labels":{"a":"b"}},"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"10.0.0.2"}}}}`,
		`[{"Id":"x","Names":["/web"],"State":"running","Status":"Up 5 minutes (healthy)","HostConfig":{"NetworkMode":"container:y"}},{"Id":"y","State":"exited","Status":"Exited (1) 2 days ago"}]`,
		`{"Type":"container","Action":"kill","Actor":{"ID":"x","Attributes":{"signal":"15","name":"web"}},"timeNano":5}`)
	f.Add(`{"Id":"x","State":{"Status":"running"},"Config":{"StopTimeout":99999999999999},"NetworkSettings":{"Networks":{"a":null,"b":{"IPAddress":"localhost"}}}}`,
		`[{"Id":"x","Names":[],"State":"running","HostConfig":{"NetworkMode":"container:x"}}]`, `{"Type":"container","Action":"die","Actor":{"ID":"x","Attributes":{"signal":"28","exitCode":"-1"}}}`)
	e := &Engine{conf: Config{Name: "docker", Endpoint: "unix:///s"}}
	f.Fuzz(func(t *testing.T, inspection, list, event string) {
		var in container.InspectResponse
		if json.Unmarshal([]byte(inspection), &in) == nil && in.ContainerJSONBase != nil && in.State != nil && in.State.Status != "" {
			n := networking{alive: stateOf(in.State.Status).Alive()}
			if in.HostConfig != nil {
				n.mode = string(in.HostConfig.NetworkMode)
			}
			if in.NetworkSettings != nil {
				n.endpoints = in.NetworkSettings.Networks
			}
			checkContainer(t, e.describe(&in, n), n.mode)
		}
		var all []container.Summary
		if json.Unmarshal([]byte(list), &all) == nil {
			summarize(all, time.Unix(1, 0), time.Unix(2, 0))
		}
		var m events.Message
		if json.Unmarshal([]byte(event), &m) == nil {
			forged := &forged{}
			for range 2 {
				if ev, ok := forged.hear(m); ok && (ev.ID == "" || ev.Action == runtime.ActionDie && ev.Labels["exitCode"] != "") {
					t.Errorf("got %+v", ev)
				}
			}
		}
	})
}

func checkContainer(t *testing.T, c *runtime.Container, mode string) {
	t.Helper()
	if c.StopTimeout < -time.Second {
		t.Errorf("a stop timeout of %v", c.StopTimeout)
	}
	if c.Address == "" || mode == "host" && c.Address == "127.0.0.1" {
		return
	}
	ip, err := netip.ParseAddr(c.Address)
	if err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || strings.Contains(c.Address, "%") {
		t.Errorf("the address %q", c.Address)
	}
}
