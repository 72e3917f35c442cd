package engine

import (
	"net/http"
	"time"

	"github.com/docker/docker/api/types/container"
)

// execution is a command in a container. It succeeds.
type execution struct {
	id    string
	in    *instance
	began time.Time
	done  bool
}

func (e *Engine) execCreate(w http.ResponseWriter, _ *http.Request, i *instance) {
	if !i.running {
		fail(w, http.StatusConflict, "container "+i.id+" is not running")
		return
	}
	e.created++
	x := &execution{id: hash("exec", e.created), in: i}
	e.execs[x.id] = x
	answer(w, http.StatusCreated, container.ExecCreateResponse{ID: x.id})
}

// execStart answers when the command has ended, without output.
func (e *Engine) execStart(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	x := e.execs[r.PathValue("id")]
	if x != nil {
		x.began = time.Now()
	}
	e.mu.Unlock()
	if x == nil {
		fail(w, http.StatusNotFound, "No such exec instance: "+r.PathValue("id"))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.docker.raw-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(e.config.ExecTime):
	case <-r.Context().Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x.done = true
	e.tell(x.in, "exec_die", map[string]string{"execID": x.id, "exitCode": "0"})
	time.AfterFunc(time.Minute, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.execs, x.id)
	})
}

// runningPID is what the engine tells of a command under way: no process has it.
const runningPID = 1 << 30

func (e *Engine) execInspect(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.execs[r.PathValue("id")]
	if x == nil {
		fail(w, http.StatusNotFound, "No such exec instance: "+r.PathValue("id"))
		return
	}
	state := map[string]any{"ID": x.id, "ContainerID": x.in.id, "Running": !x.began.IsZero() && !x.done, "ExitCode": nil, "Pid": 0}
	if !x.began.IsZero() {
		state["Pid"] = runningPID
	}
	if x.done {
		state["ExitCode"] = 0
	}
	answer(w, http.StatusOK, state)
}
