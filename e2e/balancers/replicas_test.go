package balancers

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// replicaSet is a service that healthd supervises, behind a balancer. Three replicas run, the
// others may be started.
type replicaSet struct {
	t         *testing.T
	e         *dockertest.Engine
	d         *harness.Daemon
	replicas  []replica
	names     []string // of those that run
	addresses []string
}

type replica struct {
	name    string
	address string // on the host's network; empty: the container has one of its own
	labels  map[string]string
	lingers bool // takes new requests for a second after its stop signal, and logs then how many it has to answer
}

// startAll starts healthd and three of the replicas.
func (b *replicaSet) startAll() {
	b.t.Helper()
	b.d.Start()
	b.d.Eventually("be synced", b.d.Synced)
	for _, r := range b.replicas[:3] {
		b.names, b.addresses = append(b.names, r.name), append(b.addresses, r.address)
	}
	for i := range b.names {
		b.run(i)
	}
	for i, name := range b.names {
		s := b.d.Until(name, "ready", harness.Ready)
		if b.addresses[i] == "" {
			b.addresses[i] = s.Address + ":8080"
		}
	}
}

// run starts a replica. Its container lives as long as the test.
func (b *replicaSet) run(i int) {
	b.t.Helper()
	r := b.replicas[i]
	network, command := "", []string{"/bin/testserver", "-finish"}
	if r.address != "" {
		network, command = "host", append(command, "-http", r.address, "-grpc", "127.0.0.1:0", "-tcp", "127.0.0.1:0")
	}
	if r.lingers {
		command = []string{"sh", "-c", strings.Join(command, " ") + ` & trap 'wget -q -O - http://` + r.address + `/worked; sleep 1; kill $!' TERM; wait; wait`}
	}
	b.e.Run(b.t, dockertest.RunOptions{Name: r.name, Network: network, Labels: r.labels, Cmd: command})
}

// set tells a replica how to answer from now on, such as "ready=503".
func (b *replicaSet) set(i int, what string) {
	b.t.Helper()
	response, err := http.Post("http://"+b.addresses[i]+"/set?"+what, "text/plain", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("%s answers %s", b.names[i], response.Status)
	}
}

// requestCount is what a replica itself has counted.
type requestCount struct {
	Count int
	Last  time.Time
}

func (b *replicaSet) requestCount(i int) (w requestCount) {
	b.t.Helper()
	response, err := http.Get("http://" + b.addresses[i] + "/worked")
	if err == nil {
		err = json.NewDecoder(response.Body).Decode(&w)
		response.Body.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// makeUnready lets a replica fail readiness and returns when healthd's verdict came.
func (b *replicaSet) makeUnready(i int) time.Time {
	b.t.Helper()
	b.set(i, "ready=503")
	b.d.Until(b.names[i], "not ready", func(s harness.Status) bool { return !s.Ready })
	return b.last(b.names[i], "NotReady").Time
}

// leftAlone checks that no request comes to a replica, while the loads have others answered.
func (b *replicaSet) leftAlone(i int, loads ...*harness.Load) {
	b.t.Helper()
	b.othersAnswer(i, loads...) // what was on its way has come
	before := b.requestCount(i).Count
	b.othersAnswer(i, loads...)
	if n := b.requestCount(i).Count - before; n != 0 {
		b.t.Errorf("%d requests came to %s, which is not ready", n, b.names[i])
	}
}

// othersAnswer waits until all replicas but one have answered requests that are sent from now on.
func (b *replicaSet) othersAnswer(i int, loads ...*harness.Load) {
	b.t.Helper()
	others := slices.Delete(slices.Clone(b.addresses), i, i+1)
	for _, l := range loads {
		l.ResetReplicas()
		b.d.Eventually("let requests reach the others", func() error { return l.Reached(others...) })
	}
}

// last returns the last event of that reason.
func (b *replicaSet) last(name, reason string) harness.Event {
	b.t.Helper()
	for _, e := range slices.Backward(b.d.Events(name)) {
		if e.Reason == reason {
			return e
		}
	}
	b.t.Fatalf("%s has no event %s", name, reason)
	return harness.Event{}
}
