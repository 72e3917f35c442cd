package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// The inspection of one container never returns. The others are supervised meanwhile, and
// /readyz waits for it only until its deadline, 10 s.
func TestHungInspectionDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	labels := map[string]string{"e2e": "beside"}
	hung := e.Run(t, dockertest.RunOptions{Name: "beside-hung", Labels: labels})
	var ids []string
	for i := range 10 {
		ids = append(ids, e.Run(t, dockertest.RunOptions{Name: fmt.Sprintf("beside-%d", i), Labels: labels}))
	}
	p.on("GET /containers/"+hung+"/json", hang)
	d := newBehindProxy(t, p, fmt.Sprintf(sickSpec, "beside"))
	d.start()
	for i := range ids {
		d.until(10*time.Second, fmt.Sprintf("beside-%d", i), "ready", ready)
	}
	d.eventually(15*time.Second, "be synced", d.synced)
	for i, id := range ids[:3] {
		d.endProcess(e, id)
		d.until(5*time.Second, fmt.Sprintf("beside-%d", i), "started again", restarted(1))
	}
	p.clearFaults()
	d.until(20*time.Second, "beside-hung", "found after all", ready)
}

// A stop never returns and does nothing. The others are restarted meanwhile. When the
// connection is closed, healthd inspects the container, sees that it runs, and tries again
// after 10 s. The call's own deadline, the grace plus 30 s, has the same effect.
func TestHungStopDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(hangsSpec, "patient"))
	ids := map[string]string{}
	for _, name := range []string{"patient-1", "patient-2"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "patient"}})
		d.until(10*time.Second, name, "ready", ready)
	}
	cut := make(chan struct{})
	stops := "POST /containers/" + ids["patient-1"] + "/stop"
	p.onceOn(stops, hangUntil(cut))
	set(t, e, "patient-1", "status=500")
	d.eventually(10*time.Second, "ask for a stop", func() error { return atLeast(1, p.count(stops)) })
	set(t, e, "patient-2", "status=500")
	d.until(10*time.Second, "patient-2", "restarted", restarted(1))
	d.stays(time.Second, "patient-1", "waiting for its stop", func(s status) bool { return s.Draining && s.RestartCount == 0 })
	if n := p.count(stops); n != 1 {
		t.Errorf("%d stops while the first one hangs", n)
	}
	close(cut)
	d.until(20*time.Second, "patient-1", "restarted", restarted(1))
	if n := p.count(stops); n != 2 {
		t.Errorf("%d stops, want the one that was cut and another", n)
	}
}

func atLeast(want, got int) error {
	if got < want {
		return fmt.Errorf("%d, want %d", got, want)
	}
	return nil
}

// The engine carries out stops and starts, and the answers are lost.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(hangsSpec, "lostanswer"))
	e.Run(t, dockertest.RunOptions{Name: "lostanswer", Labels: map[string]string{"e2e": "lostanswer"}})
	d.until(10*time.Second, "lostanswer", "ready", ready)
	p.on("POST /containers/.*/(stop|start)", p.dropAnswer)
	set(t, e, "lostanswer", "status=500")
	d.until(10*time.Second, "lostanswer", "restarted", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	d.stays(3*time.Second, "lostanswer", "restarted once", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	for _, call := range []string{"stop", "start"} {
		if n := p.count("/" + call); n != 1 {
			t.Errorf("%d %ss, want 1", n, call)
		}
	}
}

// The answer to a stop is lost and its outcome unknown: the stream stalls and inspections
// fail. The operator starts the container. healthd must not stop that run for the failure
// of the one before.
func TestStopOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(hangsSpec, "nextrun"))
	id := e.Run(t, dockertest.RunOptions{Name: "nextrun", Labels: map[string]string{"e2e": "nextrun"}})
	d.until(10*time.Second, "nextrun", "ready", ready)
	p.stallEvents()
	p.on("POST /containers/"+id+"/stop", p.dropAnswer)
	p.on("GET /containers/"+id+"/json", fails)
	set(t, e, id, "status=500")
	d.eventually(15*time.Second, "stop it", func() error { return ended(t, e, id) })
	if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	begun := startedAt(t, e, id)
	// A stop whose outcome is unknown is tried again after 10 s.
	d.stays(13*time.Second, "nextrun", "not stopped once more", func(status) bool { return p.count("/stop$") == 1 })
	p.clearFaults()
	d.until(40*time.Second, "nextrun", "ready", ready)
	if after := startedAt(t, e, id); !after.Equal(begun) {
		t.Errorf("the operator's run was ended: started again at %v; events %v", after, d.reasons("nextrun"))
	}
	d.stays(2*time.Second, "nextrun", "ready", ready)
}

const jobSpec = `
[[spec]]
name = "job"
match = { e2e = "job" }
restart_policy = "OnFailure"
[spec.backoff]
initial = "1s"
max = "2s"
`

// The answer to a start is lost and its outcome unknown. The job that was started has
// finished: it must not be started again.
func TestStartOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, jobSpec)
	// It fails the first time, and succeeds from then on.
	id := e.Run(t, dockertest.RunOptions{Name: "job", Labels: map[string]string{"e2e": "job"},
		Cmd: []string{"sh", "-c", "test -e /failed && exit 0; touch /failed; until test -e /go; do sleep 0.1; done; exit 1"}})
	d.until(10*time.Second, "job", "running", func(s status) bool { return s.State.Running != nil })
	p.on("POST /containers/"+id+"/start", func(w http.ResponseWriter, r *http.Request) {
		p.stallEvents()
		p.on("GET /containers/"+id+"/json", fails)
		p.dropAnswer(w, r)
	})
	inside(t, e, id, "touch", "/go")
	starts := "/start$"
	d.eventually(10*time.Second, "start it again", func() error { return atLeast(1, p.count("containers/"+id+starts)) })
	d.stays(5*time.Second, "job", "not started once more", func(status) bool { return p.count("containers/"+id+starts) == 1 })
	p.clearFaults()
	s := d.until(40*time.Second, "job", "done", func(s status) bool { return s.Phase == "Succeeded" })
	if s.RestartCount != 1 {
		t.Errorf("%d restarts, want 1", s.RestartCount)
	}
	d.stays(2*time.Second, "job", "done", func(s status) bool { return s.Phase == "Succeeded" })
	if n := p.count("containers/" + id + starts); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// A stop comes late: its run has ended by itself, and the engine's restart policy has begun
// the next one, which the stop ends. That was healthd, not an operator, so the container
// must not stay stopped.
func TestStopThatHitsTheNextRun(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(hangsSpec, "late"))
	id := e.Run(t, dockertest.RunOptions{Name: "late", Labels: map[string]string{"e2e": "late"}, RestartPolicy: "always"})
	d.until(10*time.Second, "late", "ready", ready)
	first := startedAt(t, e, id)
	asked, pass := make(chan struct{}), make(chan struct{})
	p.onceOn("POST /containers/"+id+"/stop", func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-pass
		p.passOn(w, r)
	})
	set(t, e, id, "status=500")
	<-asked
	c, err := e.Client().ContainerInspect(t.Context(), id)
	if err == nil {
		err = syscall.Kill(c.State.Pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.eventually(10*time.Second, "see the engine restart it", func() error {
		if !startedAt(t, e, id).After(first) {
			return errors.New("it is still the first run")
		}
		return nil
	})
	d.until(10*time.Second, "late", "ready in its next run", ready)
	close(pass)
	d.eventually(10*time.Second, "stop the next run", func() error {
		if s, err := d.status("late"); err != nil || s.Ready {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
	d.until(15*time.Second, "late", "started again", ready)
}
