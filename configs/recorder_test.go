package configs

import (
	"reflect"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestRecorder(t *testing.T) {
	const file = `
[defaults.recorder]
command = ["kill", "-QUIT", "1"]

[[spec]]
name = "java"
match = { a = "java" }
[spec.recorder]
command = ["jcmd", "1", "Thread.print"]
timeout = "5s"

[[spec]]
name = "plain"
match = { a = "plain" }
[spec.readiness]
tcp_socket = { port = 80 }
`
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   core.Recorder
	}{
		{"a spec's own", map[string]string{"a": "java"}, core.Recorder{Command: []string{"jcmd", "1", "Thread.print"}, Timeout: 5 * time.Second}},
		{"the default", map[string]string{"a": "plain"}, core.Recorder{Command: []string{"kill", "-QUIT", "1"}, Timeout: 2 * time.Second}},
		{"a label's", map[string]string{"a": "java", "healthd.recorder.command": "cat '/proc/1/stack'", "healthd.recorder.timeout": "1s"},
			core.Recorder{Command: []string{"cat", "/proc/1/stack"}, Timeout: time.Second}},
	} {
		spec, err := mustParse(t, file).Resolve(runtime.Traits{Labels: tt.labels})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if !reflect.DeepEqual(spec.Recorder, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, spec.Recorder, tt.want)
		}
	}
	_, err := mustParse(t, "[labels]\nmax_timeout = \"3s\"\n"+file).Resolve(runtime.Traits{Labels: map[string]string{"a": "java", "healthd.recorder.timeout": "4s"}})
	const want = `label healthd.recorder.timeout: must be at most 3s in a label ([labels] max_timeout), is "4s"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	spec, err := mustParse(t, "").Resolve(runtime.Traits{Labels: map[string]string{"healthd.readiness.tcp_socket.port": "80"}})
	if err != nil || !reflect.DeepEqual(spec.Recorder, core.Recorder{}) {
		t.Errorf("without: got %+v, %v", spec, err)
	}
}
