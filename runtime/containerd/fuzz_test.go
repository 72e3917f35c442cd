package containerd

import (
	"slices"
	"testing"
	"time"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"healthd/runtime"
)

const (
	fuzzedSteps = 12              // all of them within the age that an event may have
	fuzzedPause = 2 * time.Second // between two: clocks are read anew for each, which takes a moment
	fuzzedPid   = 1 << 30         // above all PIDs that a host has
)

// newsOf returns the events of a story, one for each byte: its low half says what happens, the rest to
// which container and process. labels are of a container at its first and its second update.
func newsOf(story []byte, now time.Time, labels [2][]byte) []*events.Envelope {
	var all []*events.Envelope
	at := now.Add(-fuzzedSteps * fuzzedPause)
	for _, b := range story[:min(len(story), fuzzedSteps)] {
		at = at.Add(fuzzedPause)
		id, pid := "web", fuzzedPid+uint32(b>>5&1)
		if b&0x10 != 0 {
			id = "db"
		}
		code := uint32(b >> 6 * 137)
		var m proto.Message
		switch b & 0xF {
		case 0:
			m = &eventtypes.ContainerCreate{ID: id}
		case 1:
			m = &eventtypes.TaskCreate{ContainerID: id, Pid: pid}
		case 2, 3:
			m = &eventtypes.TaskStart{ContainerID: id, Pid: pid}
		case 4, 5:
			m = &eventtypes.TaskExit{ContainerID: id, ID: id, Pid: pid, ExitStatus: code, ExitedAt: timestamppb.New(at)}
		case 6:
			m = &eventtypes.TaskExit{ContainerID: id, ID: "exec", Pid: pid, ExitStatus: code}
		case 7: // at once after what came before
			at = at.Add(time.Millisecond - fuzzedPause)
			m = &eventtypes.TaskDelete{ContainerID: id, ID: id, Pid: pid, ExitStatus: code}
		case 8:
			m = &eventtypes.TaskDelete{ContainerID: id, Pid: pid, ExitStatus: code, ExitedAt: timestamppb.New(at)}
		case 9:
			m = &eventtypes.TaskOOM{ContainerID: id}
		case 10:
			m = &eventtypes.TaskPaused{ContainerID: id}
		case 11:
			m = &eventtypes.TaskResumed{ContainerID: id}
		case 12, 13:
			value := append(wire(1, id), labels[b&1]...)
			all = append(all, envelope(at, &anypb.Any{TypeUrl: "containerd.events.ContainerUpdate", Value: value}))
			continue
		default:
			m = &eventtypes.ContainerDelete{ID: id}
		}
		value, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		all = append(all, envelope(at, &anypb.Any{TypeUrl: string(m.ProtoReflect().Descriptor().FullName()), Value: value}))
	}
	return all
}

func envelope(at time.Time, event *anypb.Any) *events.Envelope {
	return &events.Envelope{Timestamp: at, Namespace: defaultNamespace, Topic: "/x", Event: event}
}

// updateLabel is a label in the event of an update.
func updateLabel(key, value string) string {
	return string(wire(3, string(wire(1, key)), string(wire(2, value))))
}

// heardOf returns what healthd hears of a story, and whether a container had nerdctl's label of a stop.
func heardOf(t *testing.T, news []*events.Envelope, c clock) (heard []runtime.Event, stopped bool) {
	t.Helper()
	r := &records{clock: c, log: zap.NewNop(), all: map[key]*record{}, changed: map[key]struct{}{}}
	e := &Engine{conf: Config{Name: defaultName, Namespaces: []string{defaultNamespace}}, log: r.log, clock: c, records: r}
	s := &stream{engine: e, labels: map[key]labelSet{}, exits: map[key]exit{}}
	for _, m := range news {
		s.translate(m)
		id, meanings := meaningsOf(m)
		for i := range s.ready {
			if ev := &s.ready[i]; ev.ID != id || !slices.Contains(meanings, ev.Action) {
				t.Errorf("%s of %s is told as %+v", m.Event.GetTypeUrl(), id, ev)
			}
			checkEvent(t, &s.ready[i], s.labels)
		}
		heard = append(heard, s.ready...)
		s.ready = nil
		for _, labels := range s.labels {
			stopped = stopped || labels["containerd.io/restart.explicitly-stopped"] == "true"
		}
	}
	for k, rec := range r.all {
		if rec.Ended != 0 && rec.Ended < rec.Started || rec.Pid < 0 || k.id != "web" && k.id != "db" {
			t.Errorf("%v: %+v", k, rec)
		}
	}
	return heard, stopped
}

// meaningsOf returns the container that an event is about, and what it may mean.
func meaningsOf(m *events.Envelope) (id string, meanings []runtime.Action) {
	message, _ := unmarshalEvent(m.Event)
	switch ev := message.(type) {
	case *eventtypes.TaskStart:
		return ev.ContainerID, []runtime.Action{runtime.ActionStart}
	case *eventtypes.TaskExit:
		if ev.ID != ev.ContainerID {
			return ev.ContainerID, []runtime.Action{runtime.ActionExec}
		}
		return ev.ContainerID, []runtime.Action{runtime.ActionDie}
	case *eventtypes.TaskDelete:
		return ev.ContainerID, []runtime.Action{runtime.ActionDie, runtime.ActionUpdate}
	case *eventtypes.TaskOOM:
		return ev.ContainerID, []runtime.Action{runtime.ActionOOM}
	case *eventtypes.TaskPaused:
		return ev.ContainerID, []runtime.Action{runtime.ActionPause}
	case *eventtypes.TaskResumed:
		return ev.ContainerID, []runtime.Action{runtime.ActionUnpause}
	case *eventtypes.ContainerCreate:
		return ev.ID, []runtime.Action{runtime.ActionCreate}
	case *eventtypes.ContainerUpdate:
		return ev.ID, []runtime.Action{runtime.ActionUpdate, runtime.ActionKill, runtime.ActionStop}
	case *eventtypes.ContainerDelete:
		return ev.ID, []runtime.Action{runtime.ActionDestroy}
	}
	return "", nil
}

// checkEvent checks what an event says of its container, whose labels are among these.
func checkEvent(t *testing.T, ev *runtime.Event, all map[key]labelSet) {
	t.Helper()
	labels, known := all[key{defaultNamespace, ev.ID}]
	if ev.Action != runtime.ActionDestroy && known != (ev.Name != "") || known && (ev.Name != ev.ID && ev.Name != labels[labelName] || !nerdctlName.MatchString(ev.Name)) {
		t.Errorf("%s of %s is called %q, with the labels %q", ev.Action, ev.ID, ev.Name, labels)
	}
	if _, has := ev.Labels[labelHealthState]; has {
		t.Errorf("each result of a health check is a change: %q", ev.Labels)
	}
	if ev.Time.IsZero() || ev.Action == runtime.ActionKill && (ev.Signal < 1 || ev.Signal > 64) || ev.Action != runtime.ActionKill && ev.Signal != 0 {
		t.Errorf("got %+v", ev)
	}
}

// byOperator are the events of an operator's stop, and those of an update, which is told as a stop, or as
// none.
func byOperator(ev runtime.Event) bool {
	return ev.Action == runtime.ActionKill || ev.Action == runtime.ActionStop || ev.Action == runtime.ActionUpdate
}

// mean says that two events are the same, but for labels and the moment.
func mean(a, b runtime.Event) bool {
	return a.ID == b.ID && a.Action == b.Action && a.Signal == b.Signal && a.ExitCode == b.ExitCode && a.ByOthers == b.ByOthers
}

// Labels of any names and contents change nothing in what healthd hears of a container, nor of another
// one. nerdctl's label of a stop adds an operator's stops, and nothing else.
func FuzzEvents(f *testing.F) {
	for _, story := range []string{
		"\x00\x01\x02\x0c\x06\x44\x07", "\x0c\x02\x0d\x84\x08\x01\x22\x0d\x0d", "\x02\x12\x0c\x1c\x0c\x49\x44\x57\x0e\x00\x0d",
		"\x04\x0d\x02\x0a\x0d\x0b\x0c\x0d", "\x02\x04\x04\x07\x0f\x02\x0c\x0e\x02", "\x02\x22\x04\x24\x08\x28\x0d",
	} {
		f.Add([]byte(story), "a", "1", "", "", "")
		f.Add([]byte(story), labelHealthState, `{"Status":"healthy"}`, "web-1", "true", "SIGQUIT")
		f.Add([]byte(story), "a\xff", "\xff\xfe", "../db", "true", "4096")
		f.Add([]byte(story), labelStopped, "true", "db", "TRUE", "-1")
	}
	c := clock{boot: "boot-1", anchor: newAnchor()}
	f.Fuzz(func(t *testing.T, story []byte, key, value, name, stopped, signal string) {
		now := time.Now()
		hostile := updateLabel(key, value) + updateLabel(labelName, name) + updateLabel(labelStopSignal, signal)
		plain := newsOf(story, now, [2][]byte{[]byte(updateLabel("which", "A")), []byte(updateLabel("which", "B"))})
		lying := newsOf(story, now, [2][]byte{
			[]byte(hostile + updateLabel("which", "A")), []byte(hostile + updateLabel(labelStopped, stopped) + updateLabel("which", "B")),
		})
		want, _ := heardOf(t, plain, c)
		got, stops := heardOf(t, lying, c)
		if slices.ContainsFunc(want, func(ev runtime.Event) bool { return ev.Action == runtime.ActionKill || ev.Action == runtime.ActionStop }) {
			t.Errorf("a stop is made up: %+v", want)
		}
		if stops {
			want, got = slices.DeleteFunc(want, byOperator), slices.DeleteFunc(got, byOperator)
		}
		if !slices.EqualFunc(got, want, mean) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
