package scenarios

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
)

func listAndInspectionAgree(t *testing.T, p Private) {
	e := connect(t, p)
	seconds := 7
	parent := p.Run(t, Container{Name: "parent", Network: "host", Cmd: deaf})
	made := map[string]string{"parent": parent}
	for _, c := range []Container{
		{Name: "plain", Labels: map[string]string{"a": "b"}, StopTimeout: &seconds, StopSignal: "QUIT", Cmd: deaf},
		{Name: "policy", RestartPolicy: "unless-stopped", Cmd: deaf},
		{Name: "sharing", Network: "container:" + parent, AutoRemove: true, Cmd: deaf},
		{Name: "ended", Cmd: []string{"sh", "-c", "exit 3"}},
		{Name: "paused", Cmd: deaf},
	} {
		made[c.Name] = p.Run(t, c)
	}
	made["created"] = p.Create(t, Container{Name: "created", Cmd: deaf})
	p.Pause(t, made["paused"])
	waitForEnd(t, e, made["ended"])
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
		want.Name, want.ID, want.Runtime, want.Image = name, made[name], p.Name(), p.Image()
		CompareContainer(t, got[name], want)
	}
	if !got["sharing"].NetworkOwnerStartedAt.Equal(got["parent"].StartedAt) {
		t.Errorf("the owner of the network started at %v, got %v", got["parent"].StartedAt, got["sharing"].NetworkOwnerStartedAt)
	}
	if got["plain"].Labels["a"] != "b" {
		t.Errorf("got the labels %v", got["plain"].Labels)
	}
	ListMatches(t, e, got)
	again := inspect(t, connect(t, p), made["plain"])
	if d := again.StartedAt.Sub(got["plain"].StartedAt).Abs(); d > 50*time.Millisecond {
		t.Errorf("another healthd says that the run began %v later or earlier", d)
	}
}

// CompareContainer compares what does not depend on chance. Of want, no restart policy is "no"
// and no stop timeout is none.
func CompareContainer(t *testing.T, got *runtime.Container, want runtime.Container) {
	t.Helper()
	if want.RestartPolicy == "" {
		want.RestartPolicy = "no"
	}
	if want.StopTimeout == 0 {
		want.StopTimeout = -1
	}
	is := runtime.Container{
		Runtime: got.Runtime, ID: got.ID, Name: got.Name, Image: got.Image,
		State: got.State, Network: got.Network, Address: got.Address, NetworkOwner: got.NetworkOwner, ExitCode: got.ExitCode,
		AutoRemove: got.AutoRemove, RestartPolicy: got.RestartPolicy, StopSignal: got.StopSignal, StopTimeout: max(got.StopTimeout, -1),
	}
	if want.Runtime == podman { // tells what holds where nothing is set, and signals by number
		want.StopSignal, want.StopTimeout = is.StopSignal, max(want.StopTimeout, is.StopTimeout)
	}
	if !reflect.DeepEqual(is, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", want.Name, is, want)
	}
	if alive := got.State.Alive(); alive != (got.Pid > 0) || (got.State == runtime.Created) != got.StartedAt.IsZero() || (got.State == runtime.Exited) != !got.FinishedAt.IsZero() {
		t.Errorf("%s: got %+v", want.Name, got)
	}
}

// ListMatches checks that a list shows these containers, by their names, as inspections did.
func ListMatches(t *testing.T, e runtime.Source, got map[string]*runtime.Container) {
	t.Helper()
	list, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range list {
		c := got[s.Name]
		if c == nil || c.ID != s.ID {
			continue
		}
		seen++
		borrows := c.Runtime == podman && c.NetworkOwner != "" // its list does not tell
		if !s.Matches(c) && !borrows {
			t.Errorf("%s does not fit:\n%+v\n%+v", s.Name, s, c)
		}
		if s.Image == "" || s.Namespace != c.Namespace {
			t.Errorf("%s has the image %q and the namespace %q, want one and %q", s.Name, s.Image, s.Namespace, c.Namespace)
		}
		if s.LatestChange.IsZero() != (s.State == runtime.Created) {
			t.Errorf("%s: got bounds %v, %v", s.Name, s.EarliestChange, s.LatestChange)
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

func environmentAndLimits(t *testing.T, p Private) {
	c := inspect(t, connect(t, p), p.Create(t, Container{Cmd: deaf, Env: []string{"SECRET=a=b", "EMPTY="}, Memory: 64 << 20}))
	for _, want := range []string{"SECRET=a=b", "EMPTY=", "PATH=/bin"} { // the image has its own, too
		if !slices.Contains(c.Env, want) {
			t.Errorf("%q is not in %q", want, c.Env)
		}
	}
	if !strings.Contains(c.Resources, "memory=67108864") {
		t.Errorf("got the limits %q", c.Resources)
	}
}

func noSuchContainer(t *testing.T, p Private) {
	findsNone(t, connect(t, p), "nosuch", "moby:nosuch", ":", "a:b:c")
}

func emptyID(t *testing.T, p Private) { findsNone(t, connect(t, p), "") }

func findsNone(t *testing.T, e Engine, ids ...string) {
	t.Helper()
	for _, id := range ids {
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

// healthOf returns the status of a container's HEALTHCHECK, and the output of its last run.
func healthOf(t *testing.T, e Engine, id string) (status, output string) {
	t.Helper()
	status, output, err := e.Health(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return status, output
}

func waitForHealth(t *testing.T, e Engine, id, want string) {
	t.Helper()
	Eventually(t, "it is "+want, func() bool { status, _ := healthOf(t, e, id); return status == want })
}

func healthcheckIsRead(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf, Healthcheck: true})
	if status, _ := healthOf(t, e, id); status != "starting" {
		t.Errorf("got %s, want starting", status)
	}
	p.SetHealthy(t, id, false)
	waitForHealth(t, e, id, "unhealthy")
	p.SetHealthy(t, id, true)
	waitForHealth(t, e, id, "healthy")
	without := p.Run(t, Container{Cmd: deaf})
	if status, _ := healthOf(t, e, without); status != "none" {
		t.Errorf("got %s, want none", status)
	}
	for id, want := range map[string]bool{id: true, without: false} {
		if c := inspect(t, e, id); c.HasHealthcheck != want {
			t.Errorf("got %+v; want a health check %v", c, want)
		}
	}
}

func pauseIsNoFailedHealthcheck(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf, Healthcheck: true})
	p.SetHealthy(t, id, true)
	waitForHealth(t, e, id, "healthy")
	p.Pause(t, id)
	if status, _ := healthOf(t, e, id); status == "unhealthy" {
		t.Error("it is unhealthy since it was paused")
	}
}

func healthcheckOutputIsRead(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf, Healthcheck: true})
	Eventually(t, "its output is read", func() bool { _, output := healthOf(t, e, id); return output == "checked\n" })
}

// Otherwise each result would make work.
func healthResultsAreNoNews(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf, Healthcheck: true})
	p.SetHealthy(t, id, false)
	waitForHealth(t, e, id, "unhealthy")
	before := inspect(t, e, id)
	now, err := e.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Subscribe(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, healthy := range []bool{true, false} {
		p.SetHealthy(t, id, healthy)
		waitForHealth(t, e, id, map[bool]string{true: "healthy", false: "unhealthy"}[healthy])
	}
	after := inspect(t, e, id)
	if after.Fingerprint != before.Fingerprint || len(after.Labels) != len(before.Labels) {
		t.Errorf("a health result changes the container:\n%+v\n%+v", before, after)
	}
	p.Rename(t, id, "renamed-at-last")
	for {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != id || ev.Action == runtime.ActionExec || ev.Time.Before(now) {
			continue
		}
		if ev.Name != "renamed-at-last" || ev.Action != runtime.ActionRename && ev.Action != runtime.ActionUpdate {
			t.Errorf("got %+v", ev)
		}
		return
	}
}
