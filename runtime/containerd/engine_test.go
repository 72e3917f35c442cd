package containerd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

func TestInspectAndListAgree(t *testing.T) {
	e, private := engine(t)
	seconds := 7
	parent := private.Run(t, containerdtest.RunOptions{Name: "parent", Network: "host", Cmd: []string{"sleep", "1000"}})
	made := map[string]string{"parent": parent}
	for name, o := range map[string]containerdtest.RunOptions{
		"plain":   {Labels: map[string]string{"a": "b"}, StopTimeout: &seconds, StopSignal: "QUIT", Cmd: []string{"sleep", "1000"}},
		"policy":  {Labels: map[string]string{"containerd.io/restart.policy": "unless-stopped"}, Cmd: []string{"sleep", "1000"}},
		"sharing": {Network: "container:" + parent, Cmd: []string{"sleep", "1000"}, AutoRemove: true},
		"ended":   {Cmd: []string{"sh", "-c", "exit 3"}},
		"paused":  {Cmd: []string{"sleep", "1000"}},
	} {
		o.Name = name
		made[name] = private.Run(t, o)
	}
	private.SetLabel(t, "", made["policy"], "containerd.io/restart.status", "running")
	made["created"] = private.Create(t, containerdtest.RunOptions{Name: "created"})
	if err := private.Task(t, made["paused"]).Pause(private.In(t, "")); err != nil {
		t.Fatal(err)
	}
	waitForState(t, e, made["ended"], runtime.Exited)
	got := map[string]*runtime.Container{}
	for name, id := range made {
		got[name] = inspect(t, e, id)
	}
	for name, want := range map[string]runtime.Container{
		"parent":  {State: runtime.Running, Network: "host", Address: "127.0.0.1"},
		"plain":   {State: runtime.Running, StopSignal: "QUIT", StopTimeout: 7 * time.Second},
		"policy":  {State: runtime.Running, RestartPolicy: "unless-stopped"},
		"sharing": {State: runtime.Running, Network: "host", Address: "127.0.0.1", NetworkOwner: parent, AutoRemove: true},
		"ended":   {State: runtime.Exited, ExitCode: 3},
		"paused":  {State: runtime.Paused},
		"created": {State: runtime.Created},
	} {
		compareContainer(t, name, got[name], want)
	}
	if !got["sharing"].NetworkOwnerStartedAt.Equal(got["parent"].StartedAt) {
		t.Errorf("the owner of the network started at %v, got %v", got["parent"].StartedAt, got["sharing"].NetworkOwnerStartedAt)
	}
	listMatches(t, e, got)
	again := inspect(t, connect(t, private, containerd.Config{StateDir: t.TempDir()}), made["plain"])
	if d := again.StartedAt.Sub(got["plain"].StartedAt).Abs(); d > 50*time.Millisecond {
		t.Errorf("another healthd says that the run began %v later or earlier", d)
	}
}

func compareContainer(t *testing.T, name string, got *runtime.Container, want runtime.Container) {
	t.Helper()
	if want.RestartPolicy == "" {
		want.RestartPolicy = "no"
	}
	if want.StopTimeout == 0 {
		want.StopTimeout = -1
	}
	is := runtime.Container{
		State: got.State, Network: got.Network, Address: got.Address, NetworkOwner: got.NetworkOwner, ExitCode: got.ExitCode,
		AutoRemove: got.AutoRemove, RestartPolicy: got.RestartPolicy, StopSignal: got.StopSignal, StopTimeout: got.StopTimeout,
	}
	if is.State != want.State || is.Network != want.Network || is.Address != want.Address || is.NetworkOwner != want.NetworkOwner ||
		is.ExitCode != want.ExitCode || is.AutoRemove != want.AutoRemove || is.RestartPolicy != want.RestartPolicy ||
		is.StopSignal != want.StopSignal || is.StopTimeout != want.StopTimeout {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, is, want)
	}
	if alive := got.State.Alive(); alive != (got.Pid > 0) || got.State != runtime.Created && got.StartedAt.IsZero() || (got.State == runtime.Exited) != !got.FinishedAt.IsZero() {
		t.Errorf("%s: got %+v", name, got)
	}
	if got.Name != name || got.Runtime != "containerd" || got.Image != containerdtest.Image {
		t.Errorf("%s: got %+v", name, got)
	}
}

func listMatches(t *testing.T, e *containerd.Engine, got map[string]*runtime.Container) {
	t.Helper()
	list, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range list {
		c := got[s.Name]
		if c == nil {
			continue
		}
		seen++
		if !s.Matches(c) {
			t.Errorf("%s does not fit:\n%+v\n%+v", s.Name, s, c)
		}
		old := *c
		old.StartedAt, old.FinishedAt = old.StartedAt.Add(-time.Hour), old.FinishedAt.Add(-time.Hour)
		if s.State != runtime.Created && s.Matches(&old) {
			t.Errorf("%s fits an earlier run", s.Name)
		}
	}
	if seen != len(got) {
		t.Errorf("listed %d of %d", seen, len(got))
	}
}

func TestInspectEnvironmentLabelsAndLimits(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Env: []string{"SECRET=a=b", "EMPTY="}, Memory: 64 << 20, Labels: map[string]string{
		"com.docker.compose.service": "web", "nerdctl/healthstate": `{"Status":"healthy","FailingStreak":0}`,
	}})
	before := inspect(t, e, id)
	for _, want := range []string{"SECRET=a=b", "EMPTY=", "PATH=/bin"} {
		if !slices.Contains(before.Env, want) {
			t.Errorf("%q is not in %q", want, before.Env)
		}
	}
	if before.Name != id || before.Labels["com.docker.compose.service"] != "web" || !strings.Contains(before.Resources, "memory=67108864") || !before.HasHealthcheck {
		t.Errorf("got %+v", before)
	}
	private.SetLabel(t, "", id, "nerdctl/healthstate", `{"Status":"unhealthy","FailingStreak":4}`)
	if after := inspect(t, e, id); after.Fingerprint != before.Fingerprint || len(after.Labels) != len(before.Labels) {
		t.Errorf("a health result changes the container:\n%+v\n%+v", before, after)
	}
	if status, _, err := e.Health(t.Context(), id); status != "unhealthy" || err != nil {
		t.Errorf("got health %q, %v", status, err)
	}
}

func TestNoSuchContainer(t *testing.T) {
	e, _ := engine(t)
	for _, id := range []string{"nosuch", "moby:nosuch", "", ":", "a:b:c"} {
		_, inspect := e.Inspect(t.Context(), id)
		_, _, health := e.Health(t.Context(), id)
		_, _, _, exec := e.Exec(t.Context(), id, []string{"true"}, time.Second, 1, nil)
		for what, err := range map[string]error{
			"inspect": inspect, "health": health, "exec": exec,
			"start": e.Start(t.Context(), id), "stop": e.Stop(t.Context(), id, time.Second),
		} {
			if !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("%s %q: got %v", what, id, err)
			}
		}
	}
}

func TestNamespaces(t *testing.T) {
	private := containerdtest.Start(t)
	e := connect(t, private, containerd.Config{Namespaces: []string{"default", "shop", "missing"}})
	other := connect(t, private, containerd.Config{})
	a := private.Run(t, containerdtest.RunOptions{ID: "web", Name: "one", Cmd: []string{"sleep", "1000"}})
	b := private.Run(t, containerdtest.RunOptions{ID: "web", Name: "two", Namespace: "shop", Cmd: []string{"sleep", "1001"}})
	list, err := e.List(t.Context())
	if err != nil || len(list) != 2 || list[0].ID == list[1].ID {
		t.Fatalf("got %+v, %v", list, err)
	}
	for id, name := range map[string]string{a: "one", "shop:" + b: "two"} {
		if c := inspect(t, e, id); c.Name != name || c.ID != id {
			t.Errorf("got %+v, want %s", c, name)
		}
	}
	if _, err := other.Inspect(t.Context(), "shop:"+b); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("found a container of another namespace: %v", err)
	}
	if err := e.Stop(t.Context(), "shop:"+b, 0); err != nil {
		t.Fatal(err)
	}
	if one, two := inspect(t, e, a), inspect(t, e, "shop:"+b); one.State != runtime.Running || two.State != runtime.Exited {
		t.Errorf("got %+v and %+v", one, two)
	}
}

func TestBadEndpoints(t *testing.T) {
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	web := filepath.Join(dir, "web")
	l, err := net.Listen("unix", web)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, nil) }()
	for endpoint, want := range map[string]string{
		filepath.Join(dir, "none"): "there is no such socket; is containerd running?",
		"unix://" + file:           "it is no socket",
		web:                        "what listens there is not containerd",
	} {
		e, err := containerd.New(containerd.Config{Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		_, list := e.List(t.Context())
		_, subscribe := e.Subscribe(t.Context(), time.Time{})
		for what, err := range map[string]error{"ping": e.Ping(t.Context()), "accept": e.Accept(t.Context()), "list": list, "subscribe": subscribe} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: got %v, want %s", what, endpoint, err, want)
			}
		}
		_ = e.Close()
	}
	for _, conf := range []containerd.Config{{Endpoint: "nonsense"}, {Endpoint: "tcp://127.0.0.1:1"}, {Namespaces: []string{"a b"}}, {Namespaces: []string{""}}} {
		if _, err := containerd.New(conf); err == nil {
			t.Errorf("accepted %+v", conf)
		}
	}
}

func TestFrozenEngineDoesNotHoldUpCalls(t *testing.T) {
	private := containerdtest.Start(t)
	e := connect(t, private, containerd.Config{})
	if err := e.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	private.Freeze(t)
	defer private.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if _, err := e.Subscribe(ctx, time.Now()); err == nil {
		t.Error("subscribed to a frozen engine")
	}
}

// nerdctl writes the addresses of its networks into a file.
func TestAddressByNerdctl(t *testing.T) {
	_, private := engine(t)
	dir := t.TempDir()
	e := connect(t, private, containerd.Config{NerdctlDir: dir})
	id := private.Run(t, containerdtest.RunOptions{Name: "addressed", Cmd: deafSleep})
	before := inspect(t, e, id)
	meta := filepath.Join(dir, "etchosts", "default", id)
	if err := os.MkdirAll(meta, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(meta, "meta.json"), []byte(`{"Networks":{"bridge":{"ips":[{"address":"10.4.0.9/24"}]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	after := inspect(t, e, id)
	if before.Address != "" || after.Address != "10.4.0.9" || after.Network != "bridge" || after.Fingerprint == before.Fingerprint {
		t.Errorf("got %+v, before that %+v", after, before)
	}
	private.Signal(t, id, syscall.SIGKILL)
	if c := waitForState(t, e, id, runtime.Exited); c.Address != "" {
		t.Errorf("got %+v", c)
	}
}
