package core

import (
	"encoding/json"
	"testing"
	"time"

	"healthd/runtime"
)

// What a journal has that this healthd does not understand is an error, never a panic later.
func TestMemoryThatIsNotUnderstood(t *testing.T) {
	for _, text := range []string{
		`{"version":3,"id":"a"}`, `{"version":"2"}`, `{"version":2,"action":{"restart":7}}`, `{"version":2,"action":{"stopping":255}}`,
		`{"version":2,"ending":{"overtaken":200}}`, `{"id":"a","restart":99}`, `{"version":2,"run":7}`, `[]`,
	} {
		var m Memory
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s: read as %+v", text, m)
		}
	}
	var m Memory
	if err := json.Unmarshal([]byte(`{"version":2,"id":"a","unknown":1}`), &m); err != nil || m.ID != "a" {
		t.Errorf("%v, %+v", err, m)
	}
}

// FuzzMemory reads any text, and writes what it has read so that it reads the same again.
func FuzzMemory(f *testing.F) {
	f.Add([]byte(`{"version":2,"id":"a","run":{"id":{"ID":"a","Started":1}},"action":{"restart":3},"gates":[{"Type":"x"}]}`))
	f.Add([]byte(`{"id":"a","stopping":1,"alive":true,"restarts":[0,1,2]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m, again Memory
		if json.Unmarshal(text, &m) != nil {
			return
		}
		_ = m.Action.Restart.String() + m.Action.Stopping.String() + m.Ending.Overtaken.String()
		data, err := json.Marshal(m)
		if err != nil {
			return // a time that JSON cannot have
		}
		if err := json.Unmarshal(data, &again); err != nil || !m.sameJSON(&again) {
			t.Errorf("%s: %v, written as %s", text, err, data)
		}
	})
}

func (m *Memory) sameJSON(other *Memory) bool {
	a, errA := json.Marshal(m)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && string(a) == string(b)
}

// A memory without a stamp does not say when it was written.
func TestMemoryWithoutStamp(t *testing.T) {
	now := Stamp{Wall: time.Now(), Monotonic: time.Hour, Boot: "a"}
	m := Memory{Facts: Facts{Kept: &Kept{}}}.FromFile(now)
	if !m.Written.Wall.IsZero() {
		t.Errorf("written at %v, want zero", m.Written.Wall)
	}
}

// A daemon that begins to observe tells of the start that the one before was about to make.
func TestStartOfTheLastDaemonIsTold(t *testing.T) {
	const told = "Container web has ended, would be started again. healthd only observes it"
	for _, tt := range []struct {
		name    string
		observe bool
		restart Cause
		want    string
	}{
		{"it waited for its back-off", true, ByExit, told},
		{"healthd itself had stopped it", true, ByLiveness, ""},
		{"nothing was to come", true, NoCause, ""},
		{"healthd starts it", false, ByExit, ""},
	} {
		m := Memory{Facts: Facts{Kept: &Kept{}}}
		m.Action.Restart = tt.restart
		s, fx := m.State(&Spec{Observe: tt.observe, RestartPolicy: Always}, &runtime.Container{Name: "web"}, time.Now(), &Room{})
		got := ""
		for _, f := range fx {
			got += f.Message
		}
		if got != tt.want || (tt.want != "") != (tt.restart != NoCause && s.Action.Restart == NoCause) {
			t.Errorf("%s: got %q, start %v", tt.name, got, s.Action.Restart)
		}
	}
}

// The daemon ends while the engine is away that was about to start the container. Only the next daemon learns that the
// engine has restarted, and thus forgotten it.
func TestEngineRestartsAfterTheDaemon(t *testing.T) {
	sim := simulatePolicy(t, Always, "engine-policy=always", "0s runs", "20s exits-restarting 137", "21s engine-lost")
	sim.generation++
	sim.recall(sim.memory())
	sim.play("22s engine-restarts", "1m")
	if n := startCalls(sim); n != 1 || sim.c.State != runtime.Running {
		t.Errorf("%d starts, want 1:\n%s", n, sim.transcript.String())
	}
}
