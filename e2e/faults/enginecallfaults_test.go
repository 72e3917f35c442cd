package faults

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// The inspection of one container never returns. The others are supervised meanwhile, and
// /readyz waits for it only until its deadline, 10 s.
func TestHungInspectionDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	labels := map[string]string{"e2e": "beside"}
	hung := e.Run(t, dockertest.RunOptions{Name: "beside-hung", Labels: labels})
	var ids []string
	for i := range 10 {
		ids = append(ids, e.Run(t, dockertest.RunOptions{Name: fmt.Sprintf("beside-%d", i), Labels: labels}))
	}
	p.On("GET /containers/"+hung+"/json", harness.Hang)
	d := harness.NewBehindProxy(t, p, fmt.Sprintf(harness.SickSpec, "beside"))
	d.Start()
	for i := range ids {
		d.Until(fmt.Sprintf("beside-%d", i), "ready", harness.Ready)
	}
	d.Eventually("be synced", d.Synced)
	for i, id := range ids[:3] {
		d.EndProcess(e, id)
		d.Until(fmt.Sprintf("beside-%d", i), "started again", harness.Restarted(1))
	}
	p.ClearFaults()
	d.Until("beside-hung", "found after all", harness.Ready)
}

// A stop never returns and does nothing. The others are restarted meanwhile. When the
// connection is closed, healthd inspects the container, sees that it runs, and tries again
// after 10 s. The call's own deadline, the grace plus 30 s, has the same effect.
func TestHungStopDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "patient"))
	ids := map[string]string{}
	for _, name := range []string{"patient-1", "patient-2"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "patient"}})
		d.Until(name, "ready", harness.Ready)
	}
	cut := make(chan struct{})
	stops := "POST /containers/" + ids["patient-1"] + "/stop"
	p.OnceOn(stops, harness.HangUntil(cut))
	harness.Set(t, e, "patient-1", "status=500")
	d.Eventually("ask for a stop", func() error { return harness.AtLeast(1, p.Count(stops)) })
	harness.Set(t, e, "patient-2", "status=500")
	d.Until("patient-2", "restarted", harness.Restarted(1))
	d.Stays(time.Second, "patient-1", "waiting for its stop", func(s harness.Status) bool { return s.Draining && s.RestartCount == 0 })
	if n := p.Count(stops); n != 1 {
		t.Errorf("%d stops while the first one hangs", n)
	}
	close(cut)
	d.Until("patient-1", "restarted", harness.Restarted(1))
	if n := p.Count(stops); n != 2 {
		t.Errorf("%d stops, want the one that was cut and another", n)
	}
}

// The engine carries out stops and starts, and the answers are lost.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "lostanswer"))
	e.Run(t, dockertest.RunOptions{Name: "lostanswer", Labels: map[string]string{"e2e": "lostanswer"}})
	d.Until("lostanswer", "ready", harness.Ready)
	p.On("POST /containers/.*/(stop|start)", p.DropAnswer)
	harness.Set(t, e, "lostanswer", "status=500")
	d.Until("lostanswer", "restarted", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	d.Stays(3*time.Second, "lostanswer", "restarted once", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	for _, call := range []string{"stop", "start"} {
		if n := p.Count("/" + call); n != 1 {
			t.Errorf("%d %ss, want 1", n, call)
		}
	}
}

// The answer to a stop is lost and its outcome unknown: the stream stalls and inspections
// fail. The operator starts the container. healthd must not stop that run for the failure
// of the one before.
func TestStopOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "nextrun"))
	id := e.Run(t, dockertest.RunOptions{Name: "nextrun", Labels: map[string]string{"e2e": "nextrun"}})
	d.Until("nextrun", "ready", harness.Ready)
	p.StallEvents()
	p.On("POST /containers/"+id+"/stop", p.DropAnswer)
	p.On("GET /containers/"+id+"/json", harness.Fails)
	harness.Set(t, e, id, "status=500")
	d.Eventually("stop it", func() error { return harness.Ended(t, e, id) })
	if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	begun := harness.StartedAt(t, e, id)
	// A stop whose outcome is unknown is tried again after 10 s.
	d.Stays(13*time.Second, "nextrun", "not stopped once more", func(harness.Status) bool { return p.Count("/stop$") == 1 })
	p.ClearFaults()
	d.Until("nextrun", "ready", harness.Ready)
	if after := harness.StartedAt(t, e, id); !after.Equal(begun) {
		t.Errorf("the operator's run was ended: started again at %v; events %v", after, d.Reasons("nextrun"))
	}
	d.Stays(2*time.Second, "nextrun", "ready", harness.Ready)
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
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, jobSpec)
	// It fails the first time, and succeeds from then on.
	id := e.Run(t, dockertest.RunOptions{Name: "job", Labels: map[string]string{"e2e": "job"},
		Cmd: []string{"sh", "-c", "test -e /failed && exit 0; touch /failed; until test -e /go; do sleep 0.1; done; exit 1"}})
	d.Until("job", "running", func(s harness.Status) bool { return s.State.Running != nil })
	p.On("POST /containers/"+id+"/start", func(w http.ResponseWriter, r *http.Request) {
		p.StallEvents()
		p.On("GET /containers/"+id+"/json", harness.Fails)
		p.DropAnswer(w, r)
	})
	harness.Inside(t, e, id, "touch", "/go")
	starts := "/start$"
	d.Eventually("start it again", func() error { return harness.AtLeast(1, p.Count("containers/"+id+starts)) })
	d.Stays(5*time.Second, "job", "not started once more", func(harness.Status) bool { return p.Count("containers/"+id+starts) == 1 })
	p.ClearFaults()
	s := d.Until("job", "done", func(s harness.Status) bool { return s.Phase == "Succeeded" })
	if s.RestartCount != 1 {
		t.Errorf("%d restarts, want 1", s.RestartCount)
	}
	d.Stays(2*time.Second, "job", "done", func(s harness.Status) bool { return s.Phase == "Succeeded" })
	if n := p.Count("containers/" + id + starts); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// A stop comes late: its run has ended by itself, and the engine's restart policy has begun
// the next one, which the stop ends. That was healthd, not an operator, so the container
// must not stay stopped.
func TestStopThatHitsTheNextRun(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "late"))
	id := e.Run(t, dockertest.RunOptions{Name: "late", Labels: map[string]string{"e2e": "late"}, RestartPolicy: "always"})
	d.Until("late", "ready", harness.Ready)
	first := harness.StartedAt(t, e, id)
	asked, pass := make(chan struct{}), make(chan struct{})
	p.OnceOn("POST /containers/"+id+"/stop", func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-pass
		p.PassOn(w, r)
	})
	harness.Set(t, e, id, "status=500")
	<-asked
	c, err := e.Client().ContainerInspect(t.Context(), id)
	if err == nil {
		err = syscall.Kill(c.State.Pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Eventually("see the engine restart it", func() error {
		if !harness.StartedAt(t, e, id).After(first) {
			return errors.New("it is still the first run")
		}
		return nil
	})
	d.Until("late", "ready in its next run", harness.Ready)
	close(pass)
	d.Eventually("stop the next run", func() error {
		if s, err := d.Status("late"); err != nil || s.Ready {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
	d.Until("late", "started again", harness.Ready)
}
