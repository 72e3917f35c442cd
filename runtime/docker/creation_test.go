package docker

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

func TestCreation(t *testing.T) {
	for text, want := range map[string]runtime.Creation{
		`{}`: {},
		`{"HostConfig": {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 5}}}`:                          {RestartMax: 5},
		`{"HostConfig": {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": -5}}}`:                         {},
		`{"HostConfig": {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 5}}}`:                              {},
		`{"Mounts": [{"Source": "/srv", "Destination": "/x"}, {"Source": "/run/docker.sock", "Destination": "/s"}]}`: {HasSocket: true},
		`{"Config": {"Healthcheck": {"Test": ["NONE"]}}}`:                                                            {},
		`{"Config": {"Healthcheck": {"Interval": 5}}}`:                                                               {},
		`{"Config": {"Healthcheck": {"Test": ["CMD", "a"], "Interval": 1000000000, "Timeout": 2, "StartPeriod": 3, "StartInterval": 4, "Retries": 5}}}`: {
			Healthcheck: &runtime.Healthcheck{Test: []string{"CMD", "a"}, Interval: time.Second, Timeout: 2, StartPeriod: 3, StartInterval: 4, Retries: 5},
		},
		`{"Config": {"ExposedPorts": {"80/tcp": {}, "443": {}, "53/udp": {}, "x/tcp": {}, "0/tcp": {}, "8000-8001/tcp": {}}}}`: {Ports: []int{443, 80}},
	} {
		var in container.InspectResponse
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			t.Fatal(err)
		}
		if in.ContainerJSONBase == nil {
			in.ContainerJSONBase = &container.ContainerJSONBase{}
		}
		if got := creationOf(&in); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}
