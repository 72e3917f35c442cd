package metrics

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	engine "healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

type noJournal struct{}

func (noJournal) Record(core.Event) {}

// supervise runs a supervisor of idle containers until the test ends, and returns how to tell it of
// a change, which the board has afterwards.
func supervise(t *testing.T) (board *supervisor.Board, deliver func(engine.Update)) {
	t.Helper()
	s := supervisor.New(supervisor.Config{
		Resolve: func(engine.Traits) (*core.Spec, error) { return &core.Spec{Name: "web"}, nil },
		Journal: noJournal{}, Runtimes: map[string]supervisor.Restarter{"docker": nil},
	})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Board(), func(u engine.Update) {
		t.Helper()
		u.Runtime = "docker"
		if u.Container != nil {
			u.ID = u.Container.ID
		}
		if err := s.Deliver(ctx, u); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func named(id, name string) engine.Update {
	return engine.Update{Kind: engine.Observed, Container: &engine.Container{Runtime: "docker", ID: id, Name: name, State: engine.Created}}
}

// midway is a collector that has something happen after a number of metrics of another one.
type midway struct {
	*Collector
	after  int
	change func()
}

func (m midway) Collect(ch chan<- prometheus.Metric) {
	slow := make(chan prometheus.Metric)
	go func() {
		defer close(slow)
		m.Collector.Collect(slow)
	}()
	n := 0
	for metric := range slow {
		ch <- metric
		if n++; n == m.after {
			m.change()
		}
	}
}

// A scrape may begin while one container has the name, and end while another one has it.
func TestNamesakesComeAndGo(t *testing.T) {
	for name, change := range map[string]engine.Update{
		"the newer one goes":       {Kind: engine.Removed, ID: "a"},
		"the newer one is renamed": named("a", "other"),
	} {
		t.Run(name, func(t *testing.T) {
			for after := 1; after < 20; after++ {
				board, deliver := supervise(t)
				deliver(named("b", "web")) // of one name, and shown in the order of their IDs
				deliver(named("a", "web"))
				registry := prometheus.NewPedanticRegistry()
				registry.MustRegister(midway{New(board, "v1"), after, func() { deliver(change) }})
				if _, err := registry.Gather(); err != nil {
					t.Fatalf("a change after %d metrics: %v", after, err)
				}
			}
		})
	}
}

// Labels of metrics must be UTF-8: names that are not may become one.
func TestNamesThatBecomeOne(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(board(web("x\xfe", "a"), web("x\xff", "b")), "v1"))
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}
