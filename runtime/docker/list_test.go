package docker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if err := e.Accept(t.Context()); err == nil || told != 3 {
		t.Errorf("told of it %d times, %v", told, err)
	}
}
