package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// fakeRecords has the records of a container by its name, newest first.
type fakeRecords map[string][]*supervisor.FlightRecord

func (f fakeRecords) Find(v *core.View, name string) (infos []supervisor.RecordInfo) {
	if v != nil {
		name = v.Container.Name
	}
	for _, r := range f[name] {
		infos = append(infos, supervisor.RecordInfo{Run: r.Run, Time: r.Time, Cause: r.Cause, Bytes: 7, File: name})
	}
	return infos
}

func (f fakeRecords) Read(info supervisor.RecordInfo) (*supervisor.FlightRecord, error) {
	for _, r := range f[info.File] {
		if r.Run == info.Run && r.Message != "damaged" {
			return r, nil
		}
	}
	return nil, errors.New("the record is damaged")
}

// fullRecord has all fields.
func fullRecord(run int) *supervisor.FlightRecord {
	return &supervisor.FlightRecord{
		Run: run, Container: "web-1", Time: at(9), Cause: supervisor.RecordCrash, StartedAt: at(1), FinishedAt: at(8), ExitCode: 3,
		Probes:    []supervisor.RecordedProbe{{Type: "liveness", FailureThreshold: 3, Results: []supervisor.RecordedResult{{Time: at(7), Outcome: "Failure", LatencySeconds: .5}}}},
		Command:   supervisor.RecordedCommand{Command: []string{"jstack", "1"}, Output: "x", Error: "y"},
		Log:       supervisor.RecordedLog{Lines: []supervisor.RecordedLine{{Time: at(6), Text: "bye"}, {Text: "half"}}, Error: "z"},
		Processes: supervisor.RecordedProcesses{Titles: []string{"PID"}, Rows: [][]string{{"1"}}, Error: "e"},
		Usage:     supervisor.RecordedUsage{MemoryBytes: 1 << 40, CPUCores: 1.5, Error: "e"}, Events: []core.Event{event("web-1", "Started", at(1))},
		Inspection: supervisor.RecordedInspection{PID: 7, EngineError: "e", Environment: []string{"A"}, Labels: map[string]string{"a": "b"}},
	}
}

// bareRecord has only what is always there.
func bareRecord(run int) *supervisor.FlightRecord {
	return &supervisor.FlightRecord{
		Run: run, Time: at(9), Cause: supervisor.RecordLiveness, Probes: []supervisor.RecordedProbe{}, Log: supervisor.RecordedLog{Lines: []supervisor.RecordedLine{}},
		Processes: supervisor.RecordedProcesses{Titles: []string{}, Rows: [][]string{}}, Events: []core.Event{},
		Inspection: supervisor.RecordedInspection{Environment: []string{}, Labels: map[string]string{}},
	}
}

func (s *answers) ofRecords(t *testing.T) {
	t.Helper()
	twin := readyContainer("twin")
	twin.Container.Runtime, twin.Container.Name = "containerd", "web-2"
	a, _, _ := newAPI(readyContainer("web-1"), readyContainer("web-2"), twin)
	a.recorder = fakeRecords{"web-1": {fullRecord(4), bareRecord(2)}, "gone": {bareRecord(1)}}
	for path, status := range map[string]int{
		"/v1/containers/web-1/records": 200, "/v1/containers/gone/records": 200, "/v1/containers/nope/records": 404, "/v1/containers/web-2/records": 409,
		"/v1/containers/web-1/records/4": 200, "/v1/containers/web-1/records/2": 200, "/v1/containers/gone/records/1": 200,
		"/v1/containers/web-1/records/x": 400, "/v1/containers/web-1/records/0": 400, "/v1/containers/web-1/records/3": 404,
		"/v1/containers/nope/records/1": 404, "/v1/containers/web-2/records/1": 409,
	} {
		s.want(t, a.Control(), status, http.MethodGet, path, "")
	}
	s.want(t, a.ReadOnly(), 200, http.MethodGet, "/v1/containers/web-1/timeline", "")
}

func TestRecords(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"), readyContainer("web-2"))
	a.recorder = fakeRecords{"web-1": {fullRecord(4), bareRecord(2)}, "web-2": {{Run: 1, Message: "damaged"}}}
	var infos []supervisor.RecordInfo
	if err := json.Unmarshal(get(t, a.Control(), "/v1/containers/web-1/records").Body.Bytes(), &infos); err != nil {
		t.Fatal(err)
	}
	if want := []supervisor.RecordInfo{{Run: 4, Time: at(9), Cause: "crash", Bytes: 7}, {Run: 2, Time: at(9), Cause: "liveness", Bytes: 7}}; !reflect.DeepEqual(infos, want) {
		t.Errorf("got %+v, want %+v", infos, want)
	}
	var record supervisor.FlightRecord
	if err := json.Unmarshal(get(t, a.Control(), "/v1/containers/web-1/records/4").Body.Bytes(), &record); err != nil || !reflect.DeepEqual(&record, fullRecord(4)) {
		t.Errorf("got %+v, %v", record, err)
	}
	w := get(t, a.Control(), "/v1/containers/web-2/records/1")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no flight record of run 1 any more: the record is damaged") {
		t.Errorf("damaged: %d %s", w.Code, w.Body)
	}
}

// Logs may hold secrets: the network does not get them.
func TestRecordsAreNotOnTheNetwork(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	a.recorder = fakeRecords{"web-1": {fullRecord(4)}}
	for _, path := range []string{"/v1/containers/web-1/records", "/v1/containers/web-1/records/4"} {
		if w := get(t, a.ReadOnly(), path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such path") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The network is told which records there are, and what prints one: nothing of what is in it.
func TestRecordsOfTheTimeline(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, typed := range map[string]string{
		"web-1": "web-1", "shop_web.1": "shop_web.1",
		"-o": "id:" + id, "$(reboot)": "id:" + id, "a b": "id:" + id, "a;b": "id:" + id, "a\nb": "id:" + id, "a\x1b[2J": "id:" + id, "\u202eweb": "id:" + id, "~root": "id:" + id, "": "id:" + id,
		strings.Repeat("a", 64): "docker:" + strings.Repeat("a", 64), // as an ID of another
	} {
		v := readyContainer(name)
		v.Container.ID = id
		a, _, _ := newAPI(v)
		a.recorder = fakeRecords{name: {fullRecord(4), bareRecord(2)}}
		answer := get(t, a.ReadOnly(), "/v1/containers/id:"+id+"/timeline").Body.String()
		var got Timeline
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatalf("%q: %v: %s", name, err, answer)
		}
		want := []TimelineRecord{{4, at(9), "crash", "healthd why " + typed + " --run 4"}, {2, at(9), "liveness", "healthd why " + typed + " --run 2"}}
		if !reflect.DeepEqual(got.Records, want) {
			t.Errorf("%q: got %+v, want %+v", name, got.Records, want)
		}
		if found, err := a.board.Find(typed); err != nil || found.Container.ID != id {
			t.Errorf("nobody finds %s: %v", typed, err)
		}
		if strings.Contains(answer, "jstack") || strings.Contains(answer, "bye") {
			t.Errorf("it has what is in the record: %s", answer)
		}
	}
}

// Without a recorder there are none.
func TestNoRecorder(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	if w := get(t, a.Control(), "/v1/containers/web-1/records"); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := get(t, a.ReadOnly(), "/v1/containers/web-1/timeline"); !strings.Contains(w.Body.String(), `"records":[]`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
