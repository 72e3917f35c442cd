package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/protobuf/proto"
)

// unclear says why the model takes no side: two acts crossed, or containerd cannot tell.
type unclear string

const (
	crossedStart unclear = "a start of healthd's was under way when the operator stopped it"
	labelledOurs unclear = "nerdctl's label was set, and then healthd stopped it for a failed probe"
	labelledLong unclear = "it ended just when a signal of nerdctl's no longer counts as a stop"
	labelledDeaf unclear = "nerdctl set its label again while nobody watched: no field shows the second time"
	sickEnd      unclear = "it ended by itself just when healthd may have begun to stop it"
	lostCode     unclear = "its task, with the exit code, was deleted while nobody watched"
	failedAct    unclear = "the operator's act failed"
	underWay     unclear = "an act is under way"
)

func (c *ctrChaos) setUnclear(s *ctrTarget, why unclear) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setWantedLocked(s, wantedUnclear, time.Time{})
	if why != underWay {
		c.acts["unclear: "+string(why)]++
		c.lines = append(c.lines, chaosLine{time.Now(), s.name, "unclear: " + string(why)})
	}
}

func (c *ctrChaos) setWanted(s *ctrTarget, w wantedState, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setWantedLocked(s, w, since)
}

func (c *ctrChaos) setWantedLocked(s *ctrTarget, w wantedState, since time.Time) {
	s.wanted, s.since, s.unjudged = w, since, false
	c.acts["wanted "+w.String()]++
}

// ctrNoticed is how long the news of an operator's stop may be on its way, and what healthd
// asks of containerd before a start.
const ctrNoticed = 5 * time.Second

// repeated is how long a shim may repeat an event.
const repeated = 30 * time.Second

// began takes in that a run began.
func (c *ctrChaos) began(s *ctrTarget, pid uint32) {
	if s.present.pid == pid || time.Since(s.pids[pid]) < repeated {
		return
	}
	s.pids[pid] = time.Now()
	s.last = s.present
	s.present, s.down = ctrRun{pid: pid, began: time.Now(), runs: true, asked: s.asking}, 0
}

// ended takes in that a run ended. Where an operator is at it, that one may have done it.
func (c *ctrChaos) ended(s *ctrTarget, pid, code uint32) {
	r := &s.present
	if r.pid != pid || !r.runs {
		return
	}
	r.runs, r.paused, r.ended, r.code = false, false, time.Now(), code
	if s.unjudged = true; !s.busy {
		c.judgeEnd(s)
	}
}

// judgeEnd says what follows of an end that was no operator's stop just now.
func (c *ctrChaos) judgeEnd(s *ctrTarget) {
	r := &s.present
	s.unjudged = false
	if s.wanted != wantedRunning {
		return
	}
	stays := s.kind.policy == "Never" || s.kind.policy == "OnFailure" && r.code == 0 || s.kind.foreign
	after := r.ended.Sub(r.labelled)
	doubt := unclear("")
	switch {
	case !r.labelled.IsZero() && after < ctrStopTakes+time.Second:
		switch {
		case r.signals > 0:
			doubt = labelledOurs
		case r.deafened:
			doubt = labelledDeaf
		case after > ctrStopTakes-time.Second:
			doubt = labelledLong
		default:
			c.setWantedLocked(s, wantedStopped, r.ended)
		}
	case r.signals > 0 && s.kind.policy == "Never":
		c.setWantedLocked(s, wantedEnded, r.ended)
	case r.signals > 0 || !stays:
	case r.sick || r.asked:
		doubt = sickEnd
	default:
		c.setWantedLocked(s, wantedEnded, r.ended)
	}
	if doubt != "" {
		c.setWantedLocked(s, wantedUnclear, time.Time{})
		c.acts["unclear: "+string(doubt)]++
	}
	c.lines = append(c.lines, chaosLine{time.Now(), s.name, "its end means: " + s.wanted.String() + " " + string(doubt)})
}

// onCall is called for each call of healthd's that reaches containerd.
func (c *ctrChaos) onCall(call *grpcCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.namespace == "foreign" {
		c.failLocked("foreign-1", "healthd asks for %s in a namespace that it was not given", call.method)
	}
	switch call.method {
	case "Tasks/Kill":
		m := &tasks.KillRequest{}
		if s := c.targetOf(call, m); s != nil && m.ExecID == "" {
			c.lines = append(c.lines, chaosLine{time.Now(), s.name, fmt.Sprintf("healthd sends %v", syscall.Signal(m.Signal))})
			c.onSignal(s)
		}
	case "Tasks/Exec":
		m := &tasks.ExecProcessRequest{}
		if s := c.targetOf(call, m); s != nil {
			c.execs[m.ExecID] = &proxiedExec{s, m.ExecID, s.present.pid, c.daemons[len(c.daemons)-1]}
		}
	}
	if s := c.startOf(call); s != nil {
		c.lines = append(c.lines, chaosLine{time.Now(), s.name, "healthd calls " + call.method})
		s.starting++
		c.onStart(s)
	}
}

func (c *ctrChaos) onAnswer(call *grpcCall, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.startOf(call); s != nil {
		s.starting--
		s.startDone = time.Now()
	}
	m := &tasks.DeleteProcessRequest{}
	if call.method == "Tasks/DeleteProcess" && c.targetOf(call, m) != nil && (err == nil || strings.Contains(err.Error(), "not found")) {
		delete(c.execs, m.ExecID)
	}
}

// startOf returns the container that a call of healthd's is to start: the first takes back
// nerdctl's label.
func (c *ctrChaos) startOf(call *grpcCall) *ctrTarget {
	switch call.method {
	case "Containers/Update":
		m := &containers.UpdateContainerRequest{}
		if proto.Unmarshal(call.request, m) == nil {
			return c.byKey[call.namespace+"/"+m.GetContainer().GetID()]
		}
	case "Tasks/Create":
		return c.targetOf(call, &tasks.CreateTaskRequest{})
	case "Tasks/Start":
		m := &tasks.StartRequest{}
		if s := c.targetOf(call, m); m.ExecID == "" {
			return s
		}
	}
	return nil
}

func (c *ctrChaos) targetOf(call *grpcCall, m interface {
	proto.Message
	GetContainerID() string
}) *ctrTarget {
	if proto.Unmarshal(call.request, m) != nil {
		return nil
	}
	return c.byKey[call.namespace+"/"+m.GetContainerID()]
}

// onSignal judges a signal of healthd's: only a sick run gets one, or one that somebody asked
// to restart.
func (c *ctrChaos) onSignal(s *ctrTarget) {
	c.acts["healthd's signal"]++
	r := &s.present
	r.signals++
	switch crossed := time.Since(r.began) < noticed && (s.last.sick || s.last.asked); {
	case !r.runs, r.sick, r.asked, crossed:
		return
	}
	c.failLocked(s.name, "healthd signals a run that is healthy, and that nobody asked it to restart (%+v)", *r)
}

func (c *ctrChaos) onStart(s *ctrTarget) {
	c.acts["healthd's start"]++
	s.startCall = time.Now()
	if s.wanted != wantedStopped && s.wanted != wantedEnded {
		return
	}
	if age := time.Since(s.since); age > ctrNoticed {
		c.failLocked(s.name, "healthd starts it %v after it was to stay down (%v)", age, s.wanted)
	}
	c.setWantedLocked(s, wantedUnclear, time.Time{}) // once is enough
}

func (c *ctrChaos) losesAnswer(call *grpcCall) bool {
	const share = 0.4
	switch call.method {
	case "Tasks/Kill", "Tasks/Create", "Tasks/Start", "Tasks/Delete", "Tasks/DeleteProcess", "Tasks/Wait", "Tasks/Exec":
	default:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.losing || c.loss.Float64() >= share {
		return false
	}
	c.acts["answer lost"]++
	return true
}
