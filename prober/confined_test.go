package prober

import (
	"net/http"
	"testing"
)

// Where healthd does not reach the container, it learns nothing about it. It must never take what answers in its
// own container, or nobody's answer, for the container's.
func TestConfined(t *testing.T) {
	port := webServer(t, func(http.ResponseWriter, *http.Request) {})
	const unreached, loop = "it is in the network b", "where a loopback address is not the host's"
	far := Target{Runtime: "fake", ID: "c1", Unreached: unreached, Confined: true, Namespace: BarredNamespace("it needs --pid=host")}
	near := Target{Runtime: "fake", ID: "c1", Address: "127.0.0.1", Confined: true}
	for _, tt := range []struct {
		name   string
		h      Handler
		target Target
		want   string
	}{
		{"another network", Handler{TCPSocket: &TCPSocket{Port: port}}, far, "cannot reach the container: " + unreached + ", and healthd cannot enter the container's network namespace: it needs --pid=host"},
		{"from the host", Handler{HTTPGet: &HTTPGet{Port: port, Via: ViaHost, Scheme: "http"}}, far, "cannot reach the container: " + unreached},
		{"inside", Handler{GRPC: &GRPC{Port: port, Via: ViaContainer}}, far, "cannot enter the container's network namespace: it needs --pid=host"},
		{"the host's network", Handler{TCPSocket: &TCPSocket{Port: port}}, near, loop},
		{"a loopback host", Handler{TCPSocket: &TCPSocket{Port: port, Host: "127.0.0.1"}}, far, loop},
		{"a loopback host of IPv6", Handler{TCPSocket: &TCPSocket{Port: port, Host: "::1"}}, far, loop},
		{"one that is mapped", Handler{TCPSocket: &TCPSocket{Port: port, Host: "::ffff:127.0.0.1"}}, far, loop},
		{"the address of every loopback", Handler{TCPSocket: &TCPSocket{Port: port, Host: "0.0.0.0"}}, far, loop},
		{"that of IPv6", Handler{TCPSocket: &TCPSocket{Port: port, Host: "::"}}, far, loop},
		{"a longer localhost", Handler{TCPSocket: &TCPSocket{Port: port, Host: "App.LocalHost."}}, far, loop},
		{"localhost", Handler{HTTPGet: &HTTPGet{Port: port, Host: "localhost", Scheme: "http"}}, far, loop},
	} {
		r := mustProbe(t, Config{}, tt.h, tt.target).Ask(t.Context(), longTimeout)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, tt.want)
	}
	hook, err := New(Config{}).Hook(LifecycleHandler{TCPSocket: &TCPSocket{Port: port}}, far)
	if err != nil {
		t.Fatal(err)
	}
	if got := hook.Run(t.Context()); got.Err == nil || !got.NotAsked {
		t.Errorf("hook: %+v", got)
	}
	wantResult(t, mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Port: port}}, loopback).Ask(t.Context(), longTimeout), Success, "")
}

// A healthd whose container has lost its network asks nobody: the kernel refuses to try. From the host that is the
// container's failure, as it is the kubelet's.
func TestConfinedWithoutRoute(t *testing.T) {
	// No TCP connection to a group of receivers is possible: the kernel answers as it does without a route.
	target := Target{Runtime: "fake", ID: "c1", Address: "224.0.0.1", Confined: true}
	const want = "connect: network is unreachable: healthd's own container has no network that leads there"
	for _, h := range []Handler{
		{TCPSocket: &TCPSocket{Port: 80}},
		{HTTPGet: &HTTPGet{Port: 80, Scheme: "http"}},
		{HTTPGet: &HTTPGet{Port: 80, Scheme: "https"}},
		{GRPC: &GRPC{Port: 80}},
	} {
		r := mustProbe(t, Config{}, h, target).Ask(t.Context(), longTimeout)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, want)
	}
	target.Confined = false
	wantResult(t, mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Port: 80}}, target).Ask(t.Context(), longTimeout), Failure, Unreachable)
	target.Confined = true
	for _, h := range []LifecycleHandler{{TCPSocket: &TCPSocket{Port: 80}}, {HTTPGet: &HTTPGet{Port: 80, Scheme: "http"}}} {
		hook, err := New(Config{}).Hook(h, target)
		if err != nil {
			t.Fatal(err)
		}
		if got := hook.Run(t.Context()); got.Err == nil || !got.NotAsked {
			t.Errorf("hook: %+v", got)
		}
	}
}
