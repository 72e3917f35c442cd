package containerd_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

func TestWithoutANameOfNerdctl(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Labels: map[string]string{"com.docker.compose.service": "web"}})
	if c := inspect(t, e, id); c.Name != id || c.Labels["com.docker.compose.service"] != "web" {
		t.Errorf("got %+v", c)
	}
}

func TestNamespaces(t *testing.T) {
	onlyInRingTwo(t)
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
