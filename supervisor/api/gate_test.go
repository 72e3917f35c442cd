package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"healthd/supervisor"
)

func TestGate(t *testing.T) {
	a, _, c := newAPI(gatedContainer("web-1"), readyContainer("db"), invalidContainer("wrong"))
	var asked string
	c.setGate = func(id, gate string, status bool) error {
		asked = fmt.Sprint(id[:5], " ", gate, " ", status)
		if gate != "ok" && gate != "example.com/warm" {
			return supervisor.ErrNoGate
		}
		return nil
	}
	client := serveControl(t, a)
	const none = `the container has no such readiness gate: \"x\"; it has `
	for _, tt := range []struct {
		path, body string
		status     int
		answer     string // part of it
		asked      string
	}{
		{"web-1/gates/ok", "True", 200, `"name":"web-1"`, "web-1 ok true"},
		{"web-1/gates/ok", " \tFalse\r\n", 200, `"type":"ok"`, "web-1 ok false"},
		{"web-1/gates/example.com/warm", "False\n", 200, `"name":"web-1"`, "web-1 example.com/warm false"},
		{"web-1/gates/example.com%2Fwarm", "True", 200, `"name":"web-1"`, "web-1 example.com/warm true"},
		{"web-1/gates/x", "True", 404, none + "example.com/warm, ok, never", "web-1 x true"},
		{"db/gates/x", "True", 404, none + "none", "db000 x true"},
		{"nobody/gates/ok", "True", 404, `no supervised container has that name or ID: \"nobody\"`, ""},
		{"web-1/gates/ok", "", 400, "the body must be True or False, it is empty", ""},
		{"web-1/gates/ok", " \n", 400, "it is empty", ""},
		{"web-1/gates/ok", "true", 400, `the body must be True or False, it is \"true\"`, ""},
		{"web-1/gates/ok", `"True"`, 400, `it is \"\\\"True\\\"\"`, ""},
		{"web-1/gates/ok", "True False", 400, `it is \"True False\"`, ""},
		{"web-1/gates/ok", strings.Repeat("True", 10), 400, `it begins with \"TrueTrueTrueTrueTrue\"`, ""},
		{"web-1/gates/ok", "True" + strings.Repeat(" ", 5000), 400, "it cannot be read", ""},
		{"web-1/gates/", "True", 404, "no such path", ""},
	} {
		asked = ""
		answer, body := put(t, client, http.MethodPut, "http://healthd/v1/containers/"+tt.path, tt.body)
		if answer.StatusCode != tt.status || !strings.Contains(body, tt.answer) || asked != tt.asked {
			t.Errorf("%s %.50q: %d %s, asked %q; want %d %s, %q", tt.path, tt.body, answer.StatusCode, body, asked, tt.status, tt.answer, tt.asked)
		}
	}
}

func TestGateErrors(t *testing.T) {
	a, _, c := newAPI(gatedContainer("web-1"))
	client := serveControl(t, a)
	for want, err := range map[int]error{503: supervisor.ErrStopping, 404: supervisor.ErrUnknownContainer, 409: errors.New("its labels are invalid")} {
		c.setGate = func(string, string, bool) error { return err }
		answer, body := put(t, client, http.MethodPut, "http://healthd/v1/containers/web-1/gates/ok", "True")
		if answer.StatusCode != want || !strings.Contains(body, err.Error()) {
			t.Errorf("%v: %d %s, want %d", err, answer.StatusCode, body, want)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		answer, _ := put(t, client, method, "http://healthd/v1/containers/web-1/gates/ok", "True")
		if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != http.MethodPut {
			t.Errorf("%s: %s, allowed %q", method, answer.Status, answer.Header.Get("Allow"))
		}
	}
}

// The network may not set gates.
func TestGateIsNotOnTheNetwork(t *testing.T) {
	a, _, c := newAPI(gatedContainer("web-1"))
	c.setGate = func(string, string, bool) error { t.Error("it was set"); return nil }
	answer, _ := put(t, http.DefaultClient, http.MethodPut, serveTCP(t, a.ReadOnly())+"/v1/containers/web-1/gates/ok", "True")
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%s", answer.Status)
	}
	if got := get(t, a.ReadOnly(), "/v1/containers/web-1/gates/ok").Code; got != http.StatusNotFound {
		t.Errorf("GET: %d", got)
	}
}
