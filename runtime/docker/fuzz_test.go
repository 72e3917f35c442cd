package docker

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

const (
	fuzzedID   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	inspection = `{"Id":"` + fuzzedID + `","Created":"2026-01-02T03:04:00Z","Path":"sh","Name":"/web","Image":"sha256:1","RestartCount":0,` +
		`"State":{"Status":"running","Running":true,"Pid":7,"ExitCode":0,"Error":"","StartedAt":"2026-01-02T03:04:05.6Z","FinishedAt":"0001-01-01T00:00:00Z",` +
		`"Health":{"Status":"healthy","FailingStreak":0,"Log":[{"Start":"2026-01-02T03:04:05Z","End":"2026-01-02T03:04:06Z","ExitCode":0,"Output":"ok"}]}},` +
		`"HostConfig":{"NetworkMode":"bridge","RestartPolicy":{"Name":"on-failure","MaximumRetryCount":3},"AutoRemove":false,"Memory":1048576,"PidsLimit":-1},` +
		`"Config":{"Image":"nginx","Env":["A=b"],"StopTimeout":10,"StopSignal":"SIGQUIT","Labels":{"a":"b"}},` +
		`"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"10.0.0.2","GlobalIPv6Address":""},"six":{"IPAddress":"","GlobalIPv6Address":"fd00::2"}}}}`
)

// fakeAnswers answers each request with the next text, and later ones with the last one.
type fakeAnswers struct{ texts []string }

func (a *fakeAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	text := a.texts[0]
	if len(a.texts) > 1 {
		a.texts = a.texts[1:]
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// engineThatAnswers speaks to an engine that gives these answers, without a socket between.
func engineThatAnswers(tb testing.TB, answers http.RoundTripper) *Engine {
	tb.Helper()
	e, err := New(Config{Endpoint: "unix:///s"})
	if err != nil {
		tb.Fatal(err)
	}
	c, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: boundedTransport{answers}}), client.WithVersion(oldestAPI))
	if err != nil {
		tb.Fatal(err)
	}
	e.current = c
	return e
}

// Whatever an engine says of a container, in which there are names, labels and addresses that others
// have chosen, gives an error or a container that healthd may act upon.
func FuzzInspection(f *testing.F) {
	host := strings.Replace(inspection, `"bridge","R`, `"host","R`, 1)
	for _, own := range []string{
		inspection, host, strings.Replace(inspection, `"bridge","R`, `"container:abc","R`, 1),
		strings.Replace(inspection, `"Running":true`, `"Running":false`, 1),
		strings.Replace(strings.Replace(inspection, `"Status":"running"`, `"Status":"exited"`, 1), `"ExitCode":0`, `"ExitCode":137`, 1),
		strings.Replace(inspection, `"StopTimeout":10`, `"StopTimeout":99999999999999`, 1),
		strings.Replace(inspection, `"Pid":7`, `"Pid":-1`, 1),
		strings.Replace(inspection, "SIGQUIT", "-1", 1),
		strings.Replace(inspection, "10.0.0.2", "127.0.0.1", 1), strings.Replace(inspection, "10.0.0.2", "localhost", 1),
		strings.Replace(inspection, "fd00::2", "fe80::1%eth0", 1), strings.Replace(inspection, "10.0.0.2", "::ffff:169.254.169.254", 1),
		strings.Replace(inspection, `"Name":"/web"`, `"Name":"//web"`, 1), strings.Replace(inspection, "T03:04:05.6Z", "T03:04:05+24:00", 1),
		`{"Id":"` + fuzzedID + `","State":{"Status":"running"},"NetworkSettings":{"Networks":{"a":null}}}`, "null", "{}",
		strings.Replace(inspection, `"NetworkSettings":{`, `"NetworkSettings":{"Ports":{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"},{"HostIp":"::","HostPort":"8080"}],"53/udp":null},`, 1),
		strings.Replace(inspection, `"NetworkSettings":{`, `"NetworkSettings":{"Ports":{"80-90/tcp":[{"HostIp":"","HostPort":"99999"}],"/":[{"HostIp":"fe80::1%a","HostPort":"1"}]},`, 1),
	} {
		f.Add(own, inspection)
		f.Add(own, host)
	}
	answers := &fakeAnswers{}
	e := engineThatAnswers(f, answers)
	ask := func(texts ...string) (*runtime.Container, error) {
		answers.texts = texts
		return e.Inspect(context.Background(), fuzzedID)
	}
	f.Fuzz(func(t *testing.T, own, other string) {
		c, err := ask(own, other)
		if err != nil {
			if c != nil {
				t.Errorf("got %+v with %v", c, err)
			}
			return
		}
		var in container.InspectResponse
		if err := json.NewDecoder(strings.NewReader(own)).Decode(&in); err != nil {
			t.Fatalf("%q was read, which says nothing: %v", own, err)
		}
		checkContainer(t, c, &in)
		checkAddress(t, c, &in, other)
		written, err := json.Marshal(in)
		if err != nil {
			return
		}
		if again, err := ask(string(written), other); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%+v, written as %s, is read as %+v, %v", c, written, again, err)
		}
	})
}

// checkContainer checks c against what the engine said.
func checkContainer(t *testing.T, c *runtime.Container, in *container.InspectResponse) {
	t.Helper()
	alive := c.State.Alive()
	if c.ID != fuzzedID || c.Runtime != "docker" || c.State == "" || c.Pid < 0 || c.Pid != 0 && (!alive || c.Pid != in.State.Pid) {
		t.Errorf("got %+v", c)
	}
	if c.StopTimeout != -time.Second && c.StopTimeout != -1 && (c.StopTimeout < 0 || c.StopTimeout > maxStopTimeout*time.Second) {
		t.Errorf("a stop timeout of %v", c.StopTimeout)
	}
	if n := c.StopSignalNumber(); n < 1 || n > 64 {
		t.Errorf("%q is signal %d", c.StopSignal, n)
	}
	for _, at := range []time.Time{c.StartedAt, c.FinishedAt} {
		if !at.IsZero() && at.Year() <= 1 {
			t.Errorf("a time of %v", at)
		}
	}
	if in.Config != nil && (!maps.Equal(c.Labels, in.Config.Labels) || !slices.Equal(c.Env, in.Config.Env)) || in.Config == nil && len(c.Labels)+len(c.Env) > 0 {
		t.Errorf("the labels %q, the environment %q", c.Labels, c.Env)
	}
	checkPorts(t, c)
	shares := in.HostConfig != nil && strings.HasPrefix(string(in.HostConfig.NetworkMode), "container:")
	if (c.NetworkOwner != "" || c.NetworkOwnerGone || !c.NetworkOwnerStartedAt.IsZero()) && !shares {
		t.Errorf("it uses the network of %q", c.NetworkOwner)
	}
}

// checkPorts checks that the ports are such, in order, and not too many.
func checkPorts(t *testing.T, c *runtime.Container) {
	t.Helper()
	if !c.State.Alive() && (c.HostPorts != nil || c.HostNetwork) || len(c.HostPorts) > runtime.MaxHostPorts {
		t.Errorf("%d ports of the host for one that is %s", len(c.HostPorts), c.State)
	}
	if !reflect.DeepEqual(runtime.KeptHostPorts(slices.Clone(c.HostPorts)), c.HostPorts) {
		t.Errorf("got %v", c.HostPorts)
	}
}

// checkAddress checks that a container is asked at an address that the engine gave a container: its
// own, or one whose network it uses. The host's own address is for those of the host's network.
func checkAddress(t *testing.T, c *runtime.Container, in *container.InspectResponse, other string) {
	t.Helper()
	if !c.State.Alive() || c.Address == "" {
		if c.Address+c.Network != "" {
			t.Errorf("%q in %q of a container that is %s", c.Address, c.Network, c.State)
		}
		return
	}
	given := []*container.InspectResponse{in}
	if in.HostConfig != nil && strings.HasPrefix(string(in.HostConfig.NetworkMode), "container:") {
		var owner container.InspectResponse
		_ = json.NewDecoder(strings.NewReader(other)).Decode(&owner)
		given[0] = &owner
	}
	for _, in := range given {
		if in.ContainerJSONBase != nil && in.HostConfig != nil && in.HostConfig.NetworkMode == "host" && c.Address == "127.0.0.1" && c.Network == "host" {
			return
		}
		if in.NetworkSettings == nil || in.NetworkSettings.Networks[c.Network] == nil {
			t.Fatalf("%q in the network %q, which the engine does not name", c.Address, c.Network)
		}
		if s := in.NetworkSettings.Networks[c.Network]; c.Address != s.IPAddress && c.Address != s.GlobalIPv6Address {
			t.Errorf("%q in the network %q is made up", c.Address, c.Network)
		}
	}
	ip, err := netip.ParseAddr(c.Address)
	if ip = ip.Unmap(); err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
		t.Errorf("the address %q", c.Address)
	}
}

// Whatever an engine lists, each container of it is one summary, and its times are a span.
func FuzzList(f *testing.F) {
	f.Add(`[{"Id":"x","Names":["/web"],"Image":"nginx","ImageID":"sha256:1","State":"running","Status":"Up 5 minutes (healthy)","Labels":{"a":"b"},"HostConfig":{"NetworkMode":"container:y"}},` +
		`{"Id":"y","Names":["/db","/web/db"],"State":"exited","Status":"Exited (137) 2 days ago","NetworkSettings":{"Networks":{"bridge":{"IPAddress":"10.0.0.2"}}}}]`)
	f.Add(`[{"Id":"x","Names":[],"State":"running","Status":"Up Less than a second","HostConfig":{"NetworkMode":"container:x"}},{"Id":"","State":"running"}]`)
	f.Add(`[{"Id":"x","Names":["//"],"State":"restarting","Status":"Restarting (-1) 200 years ago","NetworkSettings":{"Networks":{"a":null,"b":{"IPAddress":"127.0.0.1"}}}}]`)
	f.Add(`[{"Id":"x","State":"paused","Status":"Up About an hour (Paused)"},{"Id":"x","State":"stopping","Status":"Up 292 years"}]`)
	f.Add(`[{"Id":"x","State":"running","Status":"Up 1 second","Ports":[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"PrivatePort":1e99,"Type":1}]}]`)
	f.Add(`[{"Id":"x","State":"running","Ports":"80/tcp"}]`)
	f.Add(`[{"Id":"x","State":"restarting","Status":"Restarting (0) 0 years"}]`)
	f.Add(`[{"Id":"x",,"State":"running"},]`)
	f.Add(`[{"Id":"x","State":"running"}`)
	f.Add(`[{"Id":"x","State":"running"}}`)
	f.Add(`[{"Id":"x","State":"running"},`)
	f.Add("[]")
	f.Add("null")
	answers := &fakeAnswers{}
	e := engineThatAnswers(f, answers)
	f.Fuzz(func(t *testing.T, text string) {
		answers.texts = []string{text}
		list, err := e.List(context.Background())
		if err != nil {
			return
		}
		var all []struct {
			ID     string `json:"Id"`
			Labels map[string]string
			Status string
		}
		clipped := newClipper(io.NopCloser(strings.NewReader(text))) // which takes a comma too many for none
		if err := json.NewDecoder(clipped).Decode(&all); err != nil || len(all) != len(list) {
			t.Fatalf("%d containers of %d: %v", len(list), len(all), err)
		}
		for i, s := range list {
			if s.ID == "" || s.State == "" || s.ID != all[i].ID || strings.Contains(s.Name, "/") || !maps.Equal(s.Labels, all[i].Labels) {
				t.Errorf("got %+v of %+v", s, all[i])
			}
			if s.EarliestChange.IsZero() != s.LatestChange.IsZero() || s.LatestChange.Before(s.EarliestChange) || s.LatestChange.After(time.Now().Add(2*statusSlack)) {
				t.Errorf("%q is from %v to %v", all[i].Status, s.EarliestChange, s.LatestChange)
			}
		}
	})
}

// Labels cannot change what an event means: the engine writes them into the same map as its own
// attributes. All they can do is that a signal or an exit code is not known.
func FuzzEvents(f *testing.F) {
	actions := []runtime.Action{
		runtime.ActionKill, runtime.ActionDie, runtime.ActionCreate, runtime.ActionStart, runtime.ActionStop, runtime.ActionOOM,
		runtime.ActionPause, runtime.ActionRename, runtime.ActionDestroy, runtime.ActionExec, podmanDie, podmanRemove, podmanExec,
	}
	for i := range actions {
		f.Add(byte(i), false, "15", int64(5), "signal", "28", "exitCode", "0")
		f.Add(byte(i), true, "9", int64(0), "signal", "", "name", "other")
		f.Add(byte(i), true, "1", int64(-1), "container", "another", "image", "other")
		f.Add(byte(i), false, "15", int64(1<<62), "Signal", "9", "healthd.liveness.period", "1s")
	}
	f.Fuzz(func(t *testing.T, action byte, known bool, number string, nano int64, key1, value1, key2, value2 string) {
		act, labels := actions[int(action)%len(actions)], map[string]string{key1: value1, key2: value2}
		// message is an event as the engine makes it: its own attributes, then the labels, then names.
		message := func(act runtime.Action, labels map[string]string) events.Message {
			attributes := map[string]string{"execDuration": "1"}
			switch act {
			case runtime.ActionKill:
				attributes[signalLabel] = number
			case runtime.ActionDie, podmanDie:
				attributes[exitCodeLabel] = number
			}
			maps.Copy(attributes, labels)
			attributes["image"], attributes["name"] = "nginx", "web"
			return events.Message{Type: events.ContainerEventType, Action: events.Action(act), Actor: events.Actor{ID: "x", Attributes: attributes}, TimeNano: nano}
		}
		lies := forgeryOf(labels, "")
		heard := &forged{ids: map[string]forgery{}}
		if known {
			heard.ids["x"] = lies // from the list
		} else {
			heard.hear(message(runtime.ActionCreate, labels))
		}
		want, wantOK := (&forged{}).hear(message(act, nil))
		got, ok := heard.hear(message(act, labels))
		if lies.signal && want.Action == runtime.ActionKill {
			want.Signal = runtime.UnknownSignal
		}
		if lies.exitCode && want.Action == runtime.ActionDie {
			want.ExitCode = 0
		}
		if want.Action != runtime.ActionDie {
			want.ExitCode = got.ExitCode // nobody reads it
		}
		if want.Action != runtime.ActionKill {
			want.Signal = got.Signal // nobody reads it
		}
		for key, value := range got.Labels {
			if labels[key] != value || isAttribute(key) {
				t.Errorf("the label %q=%q of %q", key, value, labels)
			}
		}
		want.Labels = got.Labels
		if ok != wantOK || !reflect.DeepEqual(got, want) {
			t.Errorf("with the labels %q: got %+v, want %+v", labels, got, want)
		}
	})
}

// Whatever an engine sends as an event, healthd hears nothing, or of one container.
func FuzzEventText(f *testing.F) {
	f.Add(`{"Type":"container","Action":"kill","Actor":{"ID":"x","Attributes":{"signal":"15","name":"web","image":"nginx"}},"scope":"local","time":1767323045,"timeNano":1767323045000000005}`)
	f.Add(`{"Type":"container","Action":"die","Actor":{"ID":"x","Attributes":{"signal":"28","exitCode":"-1"}},"time":-1}`)
	f.Add(`{"Type":"network","Action":"disconnect","Actor":{"ID":"n","Attributes":{"container":"x","name":"bridge","type":"bridge"}},"timeNano":5}`)
	f.Add(`{"Type":"network","Action":"connect","Actor":{"ID":"x"}}`)
	f.Add(`{"Type":"network","Action":"destroy","Actor":{"ID":"n"}}`)
	f.Add(`{"Type":"container","Action":"died","Actor":{"ID":"x","Attributes":null},"timeNano":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, text string) {
		var m events.Message
		if json.Unmarshal([]byte(text), &m) != nil {
			return
		}
		before := maps.Clone(m.Actor.Attributes)
		heard := &forged{}
		first, ok := heard.hear(m)
		second, okAgain := heard.hear(m)
		if !maps.Equal(m.Actor.Attributes, before) || ok != okAgain || len(heard.ids) > 1 {
			t.Errorf("%q has become %q, or was heard once: %v, %v", before, m.Actor.Attributes, ok, okAgain)
		}
		if !ok {
			return
		}
		if first.ID == "" || first.ID != m.Actor.ID && (m.Type != events.NetworkEventType || first.ID != before["container"]) {
			t.Errorf("%s: got the ID %q", text, first.ID)
		}
		if first.Action == runtime.ActionKill || first.Action == runtime.ActionDie {
			second.Signal, second.ExitCode = first.Signal, first.ExitCode // unless it was learned meanwhile
		}
		if !reflect.DeepEqual(first, second) {
			t.Errorf("got %+v, and then %+v", first, second)
		}
	})
}
