package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// fakeRecords are those of containers by their names, newest first.
type fakeRecords map[string][]*supervisor.FlightRecord

func (f fakeRecords) Find(v *core.View, name string) []supervisor.RecordInfo {
	if v != nil {
		name = v.Container.Name
	}
	return infosOf(name, f[name])
}

func infosOf(name string, records []*supervisor.FlightRecord) (infos []supervisor.RecordInfo) {
	for _, r := range records {
		infos = append(infos, supervisor.RecordInfo{Run: r.Run, Time: r.Time, Cause: r.Cause, Bytes: 7, File: name})
	}
	return infos
}

func (f fakeRecords) Read(info supervisor.RecordInfo) (*supervisor.FlightRecord, error) {
	for _, r := range f[info.File] {
		if r.Run == info.Run {
			return r, nil
		}
	}
	return nil, errors.New("the record is damaged")
}

// hung is the record of a container whose recorder command tells why it hung.
func hung(run int) *supervisor.FlightRecord {
	r := &supervisor.FlightRecord{
		Run: run, Container: "shop-web-1", ID: "0123456789abcdef", Runtime: "docker", Image: "shop/web:1", Identity: "shop/web/1", Service: "shop/web", Spec: "web",
		Time: clock.Add(-5 * time.Minute), Cause: supervisor.RecordLiveness, Message: "liveness probe failed (3 in a row): GET http://172.18.0.5:8080/healthz: status 500, wanted 200-399",
		StartedAt: clock.Add(-3 * time.Hour), RanSeconds: 3 * 3600, Restarts: run - 1,
		Probes: []supervisor.RecordedProbe{
			{Type: "startup", FailureThreshold: 30},
			{Type: "readiness", FailureThreshold: 1, Results: []supervisor.RecordedResult{{Time: clock.Add(-6 * time.Minute), Outcome: "Unknown", Cause: "could not ask", Dropped: true}}},
			{Type: "liveness", FailureThreshold: 3, Results: []supervisor.RecordedResult{
				{Time: clock.Add(-5*time.Minute - 10*time.Second), Outcome: "Success", LatencySeconds: .0021},
				{Time: clock.Add(-5 * time.Minute), Outcome: "Failure", Cause: "status", LatencySeconds: .9, Output: "GET http://172.18.0.5:8080/healthz: status 500, wanted 200-399"},
			}},
		},
		Command: supervisor.RecordedCommand{Command: []string{"jcmd", "1", "Thread.print"}, Output: "\"main\" #1 prio=5\n\n   java.lang.Thread.State: BLOCKED\n\tat shop.Orders.lock(Orders.java:42)\x1b[2J\n"},
		Log: supervisor.RecordedLog{Lines: []supervisor.RecordedLine{
			{Time: clock.Add(-5*time.Minute - 20*time.Second), Text: "GET /orders"}, {Text: "waiting for lock\x07"},
		}},
		Processes: supervisor.RecordedProcesses{
			Titles: []string{"PID", "PPID", "STAT", "COMMAND"}, Rows: [][]string{{"4711", "4690", "Sl", "java -jar /shop.jar"}, {"4805", "4711", "Z", "[sh] <defunct>"}}, More: 3,
		},
		Usage:  supervisor.RecordedUsage{MemoryBytes: 60 << 20, MemoryLimitBytes: 64 << 20, CPUCores: .02, CPUSeconds: 81.5, ThrottledSeconds: 12, PIDs: 5},
		Events: []core.Event{{Time: clock.Add(-5 * time.Minute), Container: "shop-web-1", Reason: "Unhealthy", Message: "Liveness probe failed (3/3): GET http://172.18.0.5:8080/healthz: status 500, wanted 200-399"}},
		Inspection: supervisor.RecordedInspection{
			State: "running", ImageID: "sha256:1234", Address: "172.18.0.5", Network: "shop_default", Resources: "memory=67108864", RestartPolicy: "no", StopSignal: "SIGTERM",
			StopTimeoutSeconds: 30, Environment: []string{"DB_PASSWORD", "PATH"}, Labels: map[string]string{"com.docker.compose.service": "web"},
		},
	}
	return r
}

// crashed is the record of a container that had little to say.
func crashed(run int) *supervisor.FlightRecord {
	return &supervisor.FlightRecord{
		Run: run, Container: "shop-web-1", ID: "0123456789abcdef", Runtime: "containerd", Image: "shop/web:1", Time: clock.Add(-2 * time.Hour), Cause: supervisor.RecordCrash,
		Message: "exited with code 139 (SIGSEGV)", FinishedAt: clock.Add(-2 * time.Hour), RanSeconds: 61, ExitCode: 139,
		Log:        supervisor.RecordedLog{Error: "cannot read the log of container 0123456789ab: its log cannot be read: its log driver is syslog"},
		Processes:  supervisor.RecordedProcesses{Error: "the container has ended"},
		Usage:      supervisor.RecordedUsage{Error: "the container has ended"},
		Inspection: supervisor.RecordedInspection{State: "exited", RestartPolicy: "no", StopTimeoutSeconds: -1},
	}
}

func TestFlightRecordPages(t *testing.T) {
	killed := hung(2)
	killed.Command.TimedOut, killed.Command.Cut, killed.Command.Output = true, true, ""
	killed.Log, killed.Usage.MemoryLimitBytes, killed.Usage.ThrottledSeconds = supervisor.RecordedLog{Lines: []supervisor.RecordedLine{{Text: "x"}}, Cut: true}, 0, 0
	killed.Message = "liveness probe failed (3 in a row): " + strings.Repeat("0123456789", 30)
	killed.Processes.Rows[0][3] = strings.Repeat("java -cp /a/very/long/class/path:", 20)
	for file, tt := range map[string]struct {
		record *supervisor.FlightRecord
		all    []*supervisor.FlightRecord
	}{
		"why.txt":       {hung(4), []*supervisor.FlightRecord{hung(4), crashed(1)}},
		"why-crash.txt": {crashed(1), []*supervisor.FlightRecord{crashed(1)}},
		"why-long.txt":  {killed, nil},
	} {
		for _, columns := range []int{80, 100, 250} {
			var b bytes.Buffer
			if err := writeFlightRecord(&b, tt.record, infosOf("", tt.all), columns, clock); err != nil {
				t.Fatal(err)
			}
			if fits(t, b.String(), columns); columns == 100 {
				golden(t, file, b.String())
			}
		}
	}
}

func TestWhy(t *testing.T) {
	socket, _ := daemonWith(t, &fake{records: fakeRecords{
		"web-1": {hung(4), crashed(2), crashed(1)}, "gone": {crashed(1)},
	}}, container("web-1", nil), container("web-2", nil))
	for _, tt := range []struct {
		args []string
		want string // of the first line
	}{
		{[]string{"web-1"}, "shop-web-1 (docker, shop/web:1), run 4: liveness probe failed"},
		{[]string{"web-1", "--run", "2"}, "shop-web-1 (containerd, shop/web:1), run 2: exited with code 139 (SIGSEGV)"},
		{[]string{"web-1", "--run", "-1"}, "shop-web-1 (containerd, shop/web:1), run 2:"},
		{[]string{"web-1", "--run=-2"}, "shop-web-1 (containerd, shop/web:1), run 1:"},
		{[]string{"gone"}, "shop-web-1 (containerd, shop/web:1), run 1:"},
	} {
		got := inside(append([]string{"why", "--socket", socket}, tt.args...)...)
		if first, _, _ := strings.Cut(got.stdout, "\n"); got.code != exitOK || !strings.HasPrefix(first, tt.want) {
			t.Errorf("%q: got %d %q %s, want %q", tt.args, got.code, first, got.stderr, tt.want)
		}
	}
	got := inside("why", "--socket", socket, "web-1", "-o", "json")
	var r supervisor.FlightRecord
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Run != 4 || r.Command.Output != hung(4).Command.Output || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("got %v, %s", err, got.stdout)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"web-2"}, exitFailure, "healthd: there is no flight record of web-2: healthd has seen no failure of it. healthd events web-2 shows what happened\n"},
		{[]string{"web-1", "--run", "3"}, exitFailure, "healthd: there is no flight record of run 3 of web-1: there are those of run 4, 2, 1\n"},
		{[]string{"web-1", "--run", "-3"}, exitFailure, "healthd: there is no flight record of web-1 so far back: there are 3 records\n"},
		{[]string{"web-9"}, exitFailure, "healthd: cannot show the flight record of web-9: no supervised container has that name or ID: did you mean web-1, web-2?\n"},
		{[]string{"web-1", "-o", "yaml"}, exitUsage, "healthd: --output must be one of text, json, it is \"yaml\"\n"},
		{nil, exitUsage, "healthd: why takes NAME, not 0 arguments\n"},
	} {
		got := inside(append([]string{"why", "--socket", socket}, tt.args...)...)
		if got.code != tt.code || !strings.HasPrefix(got.stderr, tt.want) {
			t.Errorf("%q: got %d %q, want %q", tt.args, got.code, got.stderr, tt.want)
		}
	}
}
