package containerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"healthd/runtime"
)

// testClock is a clock whose boot was an hour ago.
func testClock() clock { return clock{boot: "boot", anchor: time.Now().Add(-time.Hour).UnixNano()} }

func ticks(c clock, at time.Time) uint64 {
	return uint64((at.UnixNano() - c.anchor) / int64(10*time.Millisecond))
}

func TestRunsAreToldApart(t *testing.T) {
	c := testClock()
	start := c.began().Add(time.Minute)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for _, tt := range []struct {
		name string
		do   func(*record)
		want string // the newest run
	}{
		{"started, ended", func(r *record) { r.started(c, 7, ticks(c, at(0)), at(40)); r.exited(c, 7, 3, at(time.Second)) }, "0s to 1s, 3"},
		{"seen before it is told", func(r *record) {
			r.alive(c, 7, ticks(c, at(0)), at(time.Second))
			r.started(c, 7, ticks(c, at(0)), at(40))
		}, "0s"},
		{"ended before its start is told", func(r *record) {
			r.exited(c, 7, 3, at(50))
			r.started(c, 7, 0, at(40))
			r.exited(c, 7, 3, at(50))
		}, "0s to 0s, 3"},
		{"the answer is older than the end", func(r *record) {
			r.started(c, 7, ticks(c, at(0)), at(40))
			r.exited(c, 7, 3, at(time.Second))
			r.alive(c, 7, 0, at(2*time.Second))
			r.alive(c, 7, ticks(c, at(0)), at(2*time.Second))
		}, "0s to 1s, 3"},
		{"the same PID again", func(r *record) {
			r.started(c, 7, ticks(c, at(0)), at(40))
			r.exited(c, 7, 3, at(time.Second))
			r.started(c, 7, ticks(c, at(2*time.Second)), at(2*time.Second+40))
		}, "2s"},
		{"the same PID, and too short to be seen", func(r *record) {
			r.started(c, 7, 0, at(40))
			r.exited(c, 7, 3, at(50))
			r.started(c, 7, 0, at(5*time.Second))
			r.exited(c, 7, 4, at(5*time.Second+10))
		}, "5s to 5s, 4"},
		{"ended before containerd dates its start", func(r *record) {
			r.exited(c, 7, 3, at(50))
			r.started(c, 7, 0, at(time.Second))
			r.exited(c, 7, 3, at(50))
		}, "0s to 0s, 3"},
		{"the same, of a process that was seen", func(r *record) {
			r.alive(c, 7, ticks(c, at(0)), at(20))
			r.exited(c, 7, 3, at(50))
			r.started(c, 7, ticks(c, at(0)), at(time.Second))
			r.exited(c, 7, 3, at(50))
		}, "0s to 0s, 3"},
		{"an old end is repeated", func(r *record) {
			r.started(c, 7, ticks(c, at(0)), at(40))
			r.exited(c, 7, 3, at(time.Second))
			r.started(c, 8, ticks(c, at(2*time.Second)), at(2*time.Second+40))
			r.exited(c, 7, 3, at(time.Second))
			r.started(c, 7, 0, at(40))
		}, "2s"},
		{"gone, and then its end is told", func(r *record) {
			r.started(c, 7, ticks(c, at(0)), at(40))
			r.gone(at(time.Minute), lostTask)
			r.exited(c, 7, 3, at(time.Second))
		}, "0s to 1s, 3"},
		{"gone", func(r *record) { r.alive(c, 7, ticks(c, at(0)), at(40)); r.gone(at(time.Minute), lostTask) }, "0s to 1m0s, 255"},
		{"never ran", func(r *record) { r.gone(at(time.Minute), lostTask) }, "none"},
		{"ended while nobody watched", func(r *record) { r.exited(c, 7, 3, at(time.Second)) }, "1s to 1s, 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &record{}
			tt.do(rec)
			got := "none"
			if rec.Started != 0 {
				got = fmt.Sprint(time.Duration(rec.Started - start.UnixNano()).Round(10 * time.Millisecond))
			}
			if rec.Ended != 0 {
				got += fmt.Sprintf(" to %v, %d", time.Duration(rec.Ended-start.UnixNano()).Round(10*time.Millisecond), rec.Code)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A start event is that of its run, whatever lies between the making of the task and its start.
func TestStartEventsFitTheirRun(t *testing.T) {
	c := testClock()
	made := c.began().Add(time.Minute)
	for _, after := range []time.Duration{-time.Second, 0, 40 * time.Millisecond, 3 * time.Second, time.Minute} {
		for _, seenFirst := range []bool{false, true} {
			rec := &record{}
			if seenFirst {
				rec.alive(c, 7, ticks(c, made), made.Add(after))
			}
			told, ok := rec.started(c, 7, ticks(c, made), made.Add(after))
			if run := rec.id("x"); !ok || !run.IsStart(told) {
				t.Errorf("%v after it was made: %v is not the start of %v", after, told, run)
			}
		}
	}
}

func TestKillOfARun(t *testing.T) {
	c := testClock()
	start := c.began().Add(time.Minute)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		name  string
		do    func(*record)
		takes time.Duration
		want  int // second of the kill; -1: none
	}{
		{"stopped", func(r *record) { r.noteStopped(true, at(5)); r.exited(c, 7, 143, at(6)) }, 15 * time.Second, 5},
		{"lived on", func(r *record) { r.noteStopped(true, at(5)); r.exited(c, 7, 1, at(25)) }, 15 * time.Second, -1},
		{"has a long stop timeout", func(r *record) { r.noteStopped(true, at(5)); r.exited(c, 7, 137, at(25)) }, 65 * time.Second, 5},
		{"stopped after its end", func(r *record) { r.exited(c, 7, 1, at(5)); r.noteStopped(true, at(50)) }, 15 * time.Second, 5},
		{"started by nerdctl since", func(r *record) { r.noteStopped(true, at(5)); r.exited(c, 7, 1, at(6)); r.noteStopped(false, at(9)) }, 15 * time.Second, -1},
		{"crashed", func(r *record) { r.exited(c, 7, 1, at(5)) }, 15 * time.Second, -1},
		{"began and was stopped while nobody watched", func(r *record) {
			r.noteStopped(true, at(5))
			r.exited(c, 7, 1, at(6))
			r.exited(c, 8, 143, at(10))
		}, 15 * time.Second, 10},
		{"began while nobody watched, and is being stopped", func(r *record) {
			r.noteStopped(true, at(12))
			r.alive(c, 8, ticks(c, at(9)), at(12))
			r.adoptStop(at(11))
			r.exited(c, 8, 143, at(13))
		}, 15 * time.Second, 11},
		{"began while nobody watched, and was not stopped since", func(r *record) {
			r.noteStopped(true, at(12))
			r.alive(c, 8, ticks(c, at(9)), at(12))
			r.adoptStop(at(8))
			r.exited(c, 8, 1, at(13))
		}, 15 * time.Second, -1},
		{"stopped before this run", func(r *record) {
			r.noteStopped(true, at(5))
			r.exited(c, 7, 1, at(6))
			r.started(c, 8, ticks(c, at(9)), at(9))
			r.exited(c, 8, 1, at(10))
		}, 15 * time.Second, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &record{}
			rec.started(c, 7, ticks(c, at(0)), at(0))
			tt.do(rec)
			kill, ok := rec.kill(tt.takes, at(60))
			if ok != (tt.want >= 0) || ok && !kill.Equal(at(tt.want)) {
				t.Errorf("got %v, %v, want second %d", kill.Sub(start), ok, tt.want)
			}
		})
	}
}

// All ends of before the boot seem to be of the boot: no task is left to tell more.
func TestReboot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	before, err := openRecords(file, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	k := key{"default", "web"}
	l := &look{key: k, container: containers.Container{ID: "web", CreatedAt: time.Now()}, process: &task.Process{Pid: 1 << 22, Status: task.Status_RUNNING}}
	first := before.change(k, func(rec *record) { rec.look(before.clock, l) })
	before.save()
	if err := before.close(); err != nil {
		t.Fatal(err)
	}
	same, err := openRecords(file, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if same.clock != before.clock || same.get(k).run != first.run || !same.since.Equal(before.since) {
		t.Errorf("got %+v, %+v; want %+v, %+v", same.clock, same.get(k), before.clock, first)
	}
	told := same.clock.now()
	same.clock.boot = "an earlier one"
	same.change(k, func(rec *record) { rec.Boot = same.clock.boot })
	same.save()
	if err := same.close(); err != nil {
		t.Fatal(err)
	}
	after, err := openRecords(file, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer after.close()
	l.process = nil
	rec := after.change(k, func(rec *record) { rec.look(after.clock, l) })
	if rec.state(nil) != runtime.Exited || rec.Code != lostCode || rec.Started != first.Started || rec.Ended != after.clock.anchor || rec.Lost != lostReboot {
		t.Errorf("got %+v", rec)
	}
	e := &Engine{records: after, clock: after.clock}
	for at, want := range map[time.Time]runtime.EventHistory{
		told:                                 {},
		after.clock.now():                    {HasEvent: true},
		before.since.Add(-time.Second):       {Full: true},
		after.clock.now().Add(2 * time.Hour): {Full: true},
	} {
		if got, err := e.EventHistory(t.Context(), at); got != want || err != nil {
			t.Errorf("%v: got %+v, %v; want %+v", at.Sub(told), got, err, want)
		}
	}
}

func TestRecordsAreOfContainersThatExist(t *testing.T) {
	r, err := openRecords("", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	a, b := key{"default", "a"}, key{"shop", "a"}
	r.change(a, func(rec *record) { rec.Pid = 1 })
	mark := r.mark()
	r.change(b, func(rec *record) { rec.Pid = 2 })
	r.dropOthers(func(key) bool { return false }, mark)
	if r.get(a).Pid != 0 || r.get(b).Pid != 2 {
		t.Errorf("got %+v and %+v", r.get(a), r.get(b))
	}
}

func TestKeys(t *testing.T) {
	for id, k := range map[string]key{"abc": {"default", "abc"}, "shop:abc": {"shop", "abc"}} {
		if parseKey(id) != k || k.String() != id {
			t.Errorf("%s: got %+v and %s", id, parseKey(id), k)
		}
	}
}

// The ID of a container of a second containerd tells its runtime: people choose these IDs.
func TestIDsOfSeveralContainerds(t *testing.T) {
	for id, tt := range map[string]struct {
		runtime string
		k       key
	}{
		"web":                      {"containerd", key{"default", "web"}},
		"shop:web":                 {"containerd", key{"shop", "web"}},
		"containerd-2:default:web": {"containerd-2", key{"default", "web"}},
		"containerd-2:shop:web":    {"containerd-2", key{"shop", "web"}},
	} {
		e := &Engine{conf: Config{Name: tt.runtime, Namespaces: []string{"default", "shop"}}}
		if got := e.id(tt.k); got != id {
			t.Errorf("%s: got ID %s", id, got)
		}
		if k, err := e.key(id); err != nil || k != tt.k {
			t.Errorf("%s: got %v, %v", id, k, err)
		}
		if c := (runtime.Container{ID: id}); c.EngineID() != "web" {
			t.Errorf("%s: got the engine's ID %s", id, c.EngineID())
		}
	}
	second := &Engine{conf: Config{Name: "containerd-2", Namespaces: []string{"default"}}}
	if _, err := second.key("web"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a container of the first: got %v", err)
	}
}

// An image may have any labels. What they name must not be run or written by a shim.
func TestLogsThatLabelsName(t *testing.T) {
	const nerdctl, dir = "/usr/local/bin/nerdctl", "/var/lib/nerdctl/1935db59"
	for uri, want := range map[string]bool{
		"binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=%2Fvar%2Flib%2Fnerdctl%2F1935db59":     true,
		"binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=%2Fetc":                                false,
		"binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=%2Fvar%2Flib%2Fnerdctl%2F1935db59&x=y": false,
		"binary:///usr/local/bin/nerdctl?rm=web":                                                          false,
		"binary:///bin/sh?-c=touch+%2Fowned":                                                              false,
		"binary:///proc/4711/root/nerdctl?_NERDCTL_INTERNAL_LOGGING=%2Fvar%2Flib%2Fnerdctl%2F1935db59":    false,
		"file:///etc/cron.d/owned": false,
		"":                         false,
		"::":                       false,
	} {
		if got := (labelSet{labelLogURI: uri}).loggedBy(nerdctl, dir); got != want {
			t.Errorf("%s: got %v", uri, got)
		}
	}
}

// An image cannot say that its containers are named as another one.
func TestNamesThatLabelsCannotGive(t *testing.T) {
	for _, name := range []string{"", "docker:web", "a/b", "web\n", "-web", "..", strings.Repeat("x", 256)} {
		if got := (labelSet{labelName: name}).name("id"); got != "id" {
			t.Errorf("%q: got %q", name, got)
		}
	}
}

// nerdctl 2.x takes all names that Docker takes, older ones those with a single letter, too.
func TestNamesOfNerdctl(t *testing.T) {
	for _, name := range []string{"web", "w", "web__1", "web-", "web.-_", strings.Repeat("x", 255)} {
		if got := (labelSet{labelName: name}).name("id"); got != name {
			t.Errorf("%q: got %q", name, got)
		}
	}
}

func TestParsePorts(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "[]"},
		{"{}", "[]"},
		{`{"portMappings":null}`, "[]"},
		{`{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":"127.0.0.1"}]}`, "[{80 127.0.0.1 8080}]"},
		{`{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp"}]}`, "[{80 0.0.0.0 8080} {80 :: 8080}]"},
		{`{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"udp","HostIP":"0.0.0.0"}]}`, "[]"},
		{`{"portMappings":[{"HostPort":-1,"ContainerPort":80,"Protocol":"tcp","HostIP":"0.0.0.0"}]}`, "[]"},
		{`{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":"example.com"}]}`, "[]"},
		{`{"portMappings":[{"HostPort":"8080"`, "[]"},
	} {
		if got := fmt.Sprint(parsePorts([]byte(tt.text))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestParseMeta(t *testing.T) {
	meta := `{"Networks":{"b":{"ips":[{"address":"fd00::2/64"},{"address":"10.4.0.9/24"}]},"a":{"ips":[{"address":"10.3.0.2/24","gateway":"x"}]},"bad":{"ips":[{"address":"nonsense"}]},"none":null}}`
	for _, tt := range []struct{ text, want string }{
		{meta, "[{a 10.3.0.2} {b 10.4.0.9}]"},
		{`{"Networks":{"six":{"ips":[{"address":"fd00::2/64"}]}}}`, "[{six fd00::2}]"},
		{`{"Networks":{"host's":{"ips":[{"address":"127.0.0.1/8"},{"address":"::1/128"},{"address":"0.0.0.0/0"}]}}}`, "[]"},
		{`{"Networks":{"six":{"ips":[{"address":"fe80::2/64"},{"address":"fd00::2/64"}]}}}`, "[{six fd00::2}]"},
		{"", "[]"}, {"[]", "[]"}, {"{}", "[]"},
	} {
		if got := fmt.Sprint(parseMeta([]byte(tt.text))); got != tt.want {
			t.Errorf("%s: got %s", tt.text, got)
		}
	}
}

func TestPreferredNetwork(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "etchosts", "default", "c")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	const meta = `{"Networks":{"b":{"ips":[{"address":"10.4.0.9/24"}]},"a":{"ips":[{"address":"10.3.0.2/24"}]},"bad":{"ips":[]}}}`
	if err := os.WriteFile(filepath.Join(at, "meta.json"), []byte(meta), 0o644); err != nil {
		t.Fatal(err)
	}
	for preferred, want := range map[string]string{"": "10.3.0.2", "a": "10.3.0.2", "b": "10.4.0.9", "bad": "10.3.0.2", "none": "10.3.0.2"} {
		c := &runtime.Container{}
		e := &Engine{conf: Config{NerdctlDir: dir, Network: preferred}}
		e.reach(c, key{"default", "c"}, &spec{})
		if c.Address != want || len(c.Networks) != 2 {
			t.Errorf("%q: got %s in %s of %v", preferred, c.Address, c.Network, c.Networks)
		}
	}
}

func TestLabels(t *testing.T) {
	for status, want := range map[string]map[string]string{
		"running": {"": "always", "always": "always", "unless-stopped": "unless-stopped", "on-failure": "on-failure", "on-failure:3": "on-failure:3", "no": "no", "x": "no", "always:3": "no", "on-failure:x": "no"},
		"stopped": {"always": "no"}, "": {"always": "no"},
	} {
		for policy, want := range want {
			if got := (labelSet{labelRestartStatus: status, labelRestartPolicy: policy}).restartPolicy(); got != want {
				t.Errorf("%s, %s: got %s, want %s", status, policy, got, want)
			}
		}
	}
	for text, want := range map[string]time.Duration{"": -1, "abc": -1, "-5": -1, "1.5": -1, "99999999999999999999": -1, "0": 0, "10": 10 * time.Second} {
		if got := (labelSet{labelStopTimeout: text}).stopTimeout(); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]string{`["container:abc"]`: "abc", `["bridge"]`: "", `["bridge","x"]`: "", "": "", "{": "", "null": "", `["container:"]`: "", `[1]`: ""} {
		if got := (labelSet{labelNetworks: text}).networkOwner(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{`{"Status":"healthy"}`: "healthy", `{"Status":"odd"}`: "none", "x": "none", "": "none", `{"Status":"starting","FailingStreak":2}`: "starting"} {
		if got := (labelSet{labelHealthState: text}).health(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := (labelSet{labelHealthcheck: `{"Test":["CMD","true"]}`}).health(); got != healthStarting {
		t.Errorf("got %s before the first result", got)
	}
}

func TestCreationFromLabels(t *testing.T) {
	for _, tt := range []struct {
		policy, check string
		most          int
		want          *runtime.Healthcheck
	}{
		{"on-failure:3", `{"Test":["CMD-SHELL","a"],"Interval":1000000000,"Retries":2,"StartInterval":5}`, 3,
			&runtime.Healthcheck{Test: []string{"CMD-SHELL", "a"}, Interval: time.Second, Retries: 2, StartInterval: 5}},
		{"on-failure:x", `{"Test":["NONE"]}`, 0, nil}, {"on-failure:-3", `{}`, 0, nil}, {"always", `[`, 0, nil}, {"", "", 0, nil},
	} {
		got := labelSet{labelRestartPolicy: tt.policy, labelHealthcheck: tt.check}.creation()
		if got.RestartMax != tt.most || !reflect.DeepEqual(got.Healthcheck, tt.want) || got.Ports != nil {
			t.Errorf("%+v: got %+v", tt, got)
		}
	}
}

// FuzzLabels reads labels of any content: they come from whoever made the image.
func FuzzLabels(f *testing.F) {
	f.Add("name", `["container:x"]`, "10", `{"Status":"healthy"}`, `{"Test":["NONE"]}`, "on-failure:3", []byte(`{"Networks":{"a":{"ips":[{"address":"10.0.0.2/8"}]}}}`))
	f.Add("", "{", "-1", "[]", "null", ":", []byte("{"))
	f.Fuzz(func(t *testing.T, name, networks, timeout, health, check, policy string, meta []byte) {
		l := labelSet{
			labelName: name, labelNetworks: networks, labelStopTimeout: timeout, labelHealthState: health, labelHealthcheck: check,
			labelRestartPolicy: policy, labelRestartStatus: "running", labelAutoRemove: name, labelStopSignal: name, labelLogURI: networks,
		}
		if l.name("id") == "" || l.stopTakes() < 0 || l.restartPolicy() == "" {
			t.Errorf("got %q, %v, %q", l.name("id"), l.stopTakes(), l.restartPolicy())
		}
		switch h := l.health(); {
		case h != "none" && h != "starting" && h != "healthy" && h != "unhealthy", h == "none" && l.hasHealthcheck():
			t.Errorf("got %q", h)
		}
		if owner := l.networkOwner(); owner != "" && !strings.Contains(networks, "container:") && !json.Valid([]byte(networks)) {
			t.Errorf("got %q", owner)
		}
		for _, n := range parseMeta(meta) {
			if ip, err := netip.ParseAddr(n.Address); err != nil || !ip.IsGlobalUnicast() {
				t.Errorf("got %q in %q", n.Address, n.Network)
			}
		}
		if ports := parsePorts(meta); !slices.Equal(runtime.KeptHostPorts(slices.Clone(ports)), ports) {
			t.Errorf("got %v", ports)
		}
		_ = parseSpec(meta)
		_, _ = l.lasting(), l.hash()
		if made := l.creation(); made.RestartMax < 0 || made.Healthcheck != nil && len(made.Healthcheck.Test) == 0 {
			t.Errorf("got %+v", made)
		}
	})
}

// Commands read the specification that inspections share: they must not change it.
func TestInspectionsShareTheSpecification(t *testing.T) {
	e, err := New(Config{Endpoint: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	l := &look{key: key{defaultNamespace, "web"}, container: containers.Container{ID: "web", Spec: &anypb.Any{Value: []byte(`{"process":{"env":["A=b"]}}`)}}}
	var reading sync.WaitGroup
	for range 4 {
		reading.Go(func() {
			if c := e.describe(l); len(c.Env) != 1 || c.Env[0] != "A=b" {
				t.Errorf("got %q", c.Env)
			}
		})
	}
	reading.Wait()
}
