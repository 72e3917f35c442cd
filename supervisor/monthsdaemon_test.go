package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// monthsParts are what the present daemon of months is made of, beside those of any daemon of a world.
type monthsParts struct {
	config     atomic.Pointer[configs.Config]
	journal    *journal.Journal
	prober     *prober.Prober
	metrics    http.Handler
	noteReload func(ok bool, at time.Time)
	endJournal func()
}

// NewMetrics serves the metrics of a board. monthsmetrics_test.go sets it.
var NewMetrics func(b *Board, journalUp func() bool) (metrics http.Handler, noteReload func(ok bool, at time.Time))

// assemble makes a daemon of the program's own parts.
func (h *months) assemble(d *worldDaemon, c *Config, w *runtime.Watcher) {
	// Each daemon has a boot of its own: what the kernel tells of the present one is not in virtual time.
	j, err := journal.Open(journal.Config{Dir: h.dir, Boot: fmt.Sprint("boot ", d.number)})
	if err != nil {
		h.t.Error(err)
		return
	}
	h.journal = j
	h.prober = prober.New(prober.Config{UserAgent: "healthd", Engines: map[string]prober.Engine{"docker": h}})
	config := h.parse()
	h.config.Store(config)
	for _, m := range j.Memories() {
		d.loaded[m.ID] = *m
	}
	c.Resolve, c.Prober, c.Journal, c.Guard, c.Store = config.Resolve, h.prober, j, config.Guard, j
	c.Memories, c.Shutdown = j.Memories(), config.Daemon.Shutdown
	w.Since, w.Relist = j.Seen("docker"), config.Runtimes[0].Relist
	w.Wanted = func(t runtime.Traits) bool { return h.config.Load().MaySupervise(t) }
	ctx, cancel := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() { j.Log(ctx, zap.NewNop()) })
	keeping.Go(func() {
		if err := j.Run(ctx); err != nil {
			h.t.Errorf("the journal ends: %v", err)
		}
	})
	h.endJournal = func() {
		cancel()
		keeping.Wait()
		if err := j.Close(); err != nil {
			h.t.Errorf("the journal closes: %v", err)
		}
	}
}

// startDaemon starts a daemon.
func (h *months) startDaemon() {
	h.bootDaemon(false)
	h.metrics, h.noteReload = NewMetrics(h.daemon.sup.Board(), h.journal.Up)
}

// stopDaemon ends what runs, in the order of the program.
func (h *months) stopDaemon() {
	d := h.daemon
	h.terminateDaemon(nil)
	<-d.ended
	h.endJournal()
	h.locked(func() { h.daemon = nil })
}

func (h *months) parse() *configs.Config {
	text := h.configText()
	c, err := configs.Parse("healthd.toml", text)
	if err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, text))
	}
	return c
}

// reload is healthd reload with another file.
func (h *months) reload() {
	c := h.parse()
	if err := h.daemon.sup.Reload(h.t.Context(), c.Resolve, c.Guard); err != nil {
		h.t.Fatal(err)
	}
	h.config.Store(c)
	select {
	case h.daemon.refresh <- struct{}{}:
	default:
	}
	h.noteReload(true, time.Now())
	h.journal.Record(core.Event{Time: time.Now(), Reason: core.EventReloaded, Message: "The configuration was reloaded"})
}

// asked returns the container that a probe asks.
func (h *months) asked(id string) (*worldContainer, error) {
	h.probes.Add(1)
	switch c := h.engine.find(id); {
	case !h.reachable():
		return nil, errUnreachable
	case c == nil:
		return nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	default:
		return c, nil
	}
}

// Exec answers the command of a liveness or startup probe.
func (h *months) Exec(_ context.Context, id string, _ []string, _ time.Duration, _ int, started func()) (output []byte, exitCode int, timedOut bool, err error) {
	started()
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, err := h.asked(id); err != nil {
		return nil, 0, false, err
	} else if !c.answersProbe(core.Liveness) {
		return fmt.Appendf(nil, "no answer since %v", h.engine.clock.Unix()), 1, false, nil
	}
	return nil, 0, false, nil
}

// Health answers a readiness probe.
func (h *months) Health(_ context.Context, id string) (status, output string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, err := h.asked(id); err != nil {
		return "", "", err
	} else if !c.answersProbe(core.Readiness) {
		return "unhealthy", "busy", nil
	}
	return "healthy", "", nil
}

// sizes is all that is looked at: the census, and what it cannot see.
func (h *months) sizes() map[string]int {
	h.t.Helper()
	all := takeCensus(h.loop(), h.journal, h.prober, h.daemon.watcher, h.config.Load())
	h.loop() // tells the race detector that what the loop, its probes and the watcher change from here on comes later
	h.locked(func() {})
	all[eventsKept] = len(h.journal.Events("", time.Time{}))
	all[seriesShown] = h.series()
	file, err := os.Stat(filepath.Join(h.dir, "journal.db"))
	if err != nil {
		h.t.Fatal(err)
	}
	all[fileBytes] = int(file.Size())
	all[goroutines] = goruntime.NumGoroutine()
	goruntime.GC()
	var mem goruntime.MemStats
	goruntime.ReadMemStats(&mem)
	all[heapTaken] = int(mem.HeapAlloc)
	return all
}

// loop returns the daemon's loop. It may be looked at only while all goroutines wait.
func (h *months) loop() *loop {
	found := make(chan *loop, 1)
	if err := h.daemon.sup.send(h.t.Context(), inspectLoop(func(l *loop) { found <- l })); err != nil {
		h.t.Fatal(err)
	}
	return <-found
}

// What the census cannot see.
const (
	eventsKept  = "events in the journal"
	seriesShown = "series of metrics"
	fileBytes   = "bytes of journal.db"
	goroutines  = "goroutines"
	heapTaken   = "bytes of the heap"
)

// series scrapes the metrics, and returns how many there are.
func (h *months) series() int {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		h.t.Fatalf("a scrape gets %d: %s", w.Code, w.Body)
	}
	n := 0
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if line := lines.Bytes(); len(line) > 0 && !bytes.HasPrefix(line, []byte("#")) {
			n++
		}
	}
	return n
}
