package docker

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	"healthd/runtime"
)

// A list that is not whole is an error: to healthd the containers that are missing would be gone.
func TestListThatIsNotWhole(t *testing.T) {
	const web = `{"Id":"x","Names":["/web"],"State":"running"}`
	for answer, want := range map[string]string{
		"":                        "is no list of containers",
		"<html>":                  "is no list of containers",
		"null":                    "is no list of containers",
		`{"message":"hello"}`:     "is no list of containers",
		"[{}]":                    "is no list of containers",
		"[" + web + `,{"Id":""}]`: "is no list of containers",
		"[" + web:                 "cannot read the engine's answer",
		"[" + web + ",":           "cannot read the engine's answer",
		"[" + web + `,{"Id":"y"`:  "cannot read the engine's answer",
		"[" + web + "}":           "cannot read the engine's answer",
		`[{"Id":1}]`:              "cannot read the engine's answer",
	} {
		e := engineThatAnswers(t, &fakeAnswers{texts: []string{answer}})
		if list, err := e.List(t.Context()); err == nil || len(list) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want %s", answer, list, err, want)
		}
	}
}

// An engine that went away is named like one that was never there.
func TestListOfAnEngineThatWentAway(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	told := 0
	e, err := New(Config{Endpoint: "unix://" + socket, Away: func() { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	if e.current, err = e.newClient(); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	listen := func() {
		ln, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		ln.Close()
	}
	for _, tt := range []struct {
		what string
		do   func()
		want string
	}{
		{"no socket", func() {}, "there is no such socket; is the engine running?"},
		{"nobody listens", listen, "connection refused; is the engine running?"},
		{"a directory", func() { os.Remove(socket); _ = os.Mkdir(socket, 0o700) }, "it is a directory, and no socket; was it mounted, or made, before the engine ran?"},
		{"a file", func() { os.Remove(socket); _ = os.WriteFile(socket, nil, 0o600) }, "it is a file, and no socket"},
		{"no socket any more", func() { os.Remove(socket) }, "there is no such socket; is the engine running?"},
	} {
		tt.do()
		_, err := e.List(t.Context())
		if want := "cannot list containers: cannot connect to Docker at unix://" + socket + ": " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", tt.what, err, want)
		}
		if _, ok := errors.AsType[runtime.NotListening](err); !ok {
			t.Errorf("%s: nothing listens, and %v does not say so", tt.what, err)
		}
	}
	if err := e.Accept(t.Context()); err == nil || told != 5 {
		t.Errorf("told of it %d times, %v", told, err)
	}
}

// What keeps healthd from a connection is not the end of an engine.
func TestNoConnectionToAnEngineThatRuns(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for cause, want := range map[syscall.Errno]string{
		syscall.EMFILE: "healthd, or its host, has no file descriptors left: raise their limit (LimitNOFILE= of the unit)",
		syscall.ENFILE: "healthd, or its host, has no file descriptors left: raise their limit (LimitNOFILE= of the unit)",
		syscall.EAGAIN: "connect: resource temporarily unavailable", // its queue of connections is full
	} {
		e, err := New(Config{Endpoint: "unix://" + socket, Away: func() { t.Errorf("%v: the engine is away", cause) }})
		if err != nil {
			t.Fatal(err)
		}
		refuse := boundedTransport{refusing{&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", cause)}}}
		if e.current, err = client.NewClientWithOpts(client.WithHost("unix://"+socket), client.WithHTTPClient(&http.Client{Transport: refuse})); err != nil {
			t.Fatal(err)
		}
		_, err = e.List(t.Context())
		if want := "cannot list containers: cannot connect to Docker at unix://" + socket + ": " + want; err == nil || err.Error() != want || runtime.Ended(err) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// refusing is a transport without connections.
type refusing struct{ err error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }
