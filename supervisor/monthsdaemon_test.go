package supervisor_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/prober"
	hruntime "healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
	"healthd/supervisor/metrics"
)

// monthsDaemon is one daemon, of the parts that the program is made of.
type monthsDaemon struct {
	engine     *monthsEngine
	config     atomic.Pointer[configs.Config]
	supervisor *supervisor.Supervisor
	loop       any
	journal    *journal.Journal
	prober     *prober.Prober
	watcher    *hruntime.Watcher
	refresh    chan struct{}
	reloads    *metrics.Reload
	metrics    http.Handler
	stop       func()
}

// startMonthsDaemon starts the daemon of that number in a journal's directory.
func startMonthsDaemon(t *testing.T, e *monthsEngine, dir string, number int, config []byte) *monthsDaemon {
	t.Helper()
	// Each daemon has a boot of its own: what the kernel tells of the present one is not in virtual time.
	j, err := journal.Open(journal.Config{Dir: dir, Boot: fmt.Sprint("boot ", number)})
	if err != nil {
		t.Fatal(err)
	}
	d := &monthsDaemon{
		engine: e, journal: j, refresh: make(chan struct{}, 1), reloads: metrics.NewReload(),
		prober: prober.New(prober.Config{UserAgent: "healthd", Engines: map[string]prober.Engine{"docker": e}}),
	}
	c := d.parse(t, config)
	d.config.Store(c)
	past := map[string]core.Memory{}
	for _, m := range j.Memories() {
		past[m.ID] = *m
	}
	d.supervisor = supervisor.New(supervisor.Config{
		Resolve: c.Resolve, Runtimes: map[string]supervisor.Restarter{"docker": e}, Prober: d.prober, Journal: j,
		Guard: c.Guard, Store: j, Memories: j.Memories(), Shutdown: c.Daemon.Shutdown,
	})
	d.watcher = &hruntime.Watcher{
		Name: "docker", Source: e, Since: j.Seen("docker"), Relist: c.Runtimes[0].Relist, Refresh: d.refresh,
		KnownRun: func(id string) (hruntime.Run, bool) {
			if m, ok := past[id]; ok {
				return m.Run.ID, m.Engine.State.Alive()
			}
			return hruntime.Run{}, false
		},
		Wanted: func(t hruntime.Traits) bool { return d.config.Load().MaySupervise(t) },
	}
	d.metrics = metrics.Handler(d.supervisor.Board(), "test", log.Default(), d.reloads, metrics.NewJournal(j.Up))
	d.run(t)
	if d.loop, err = supervisor.LoopOf(t.Context(), d.supervisor); err != nil {
		t.Fatal(err)
	}
	return d
}

// run starts what runs, in the order of the program.
func (d *monthsDaemon) run(t *testing.T) {
	var keeping, watching, supervising sync.WaitGroup
	begin := func(wg *sync.WaitGroup, do func(context.Context)) context.CancelFunc {
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() { do(ctx) })
		return cancel
	}
	endLog := begin(&keeping, func(ctx context.Context) { d.journal.Log(ctx, zap.NewNop()) })
	endJournal := begin(&keeping, func(ctx context.Context) {
		if err := d.journal.Run(ctx); err != nil {
			t.Errorf("the journal ends: %v", err)
		}
	})
	endWatcher := begin(&watching, func(ctx context.Context) { _ = d.watcher.Run(ctx, d.supervisor.Deliver) })
	endSupervisor := begin(&supervising, func(ctx context.Context) {
		if err := d.supervisor.Run(ctx); err != nil {
			t.Errorf("the supervisor ends: %v", err)
		}
	})
	d.stop = func() {
		endSupervisor()
		supervising.Wait()
		endWatcher()
		watching.Wait()
		endJournal()
		endLog()
		keeping.Wait()
		if err := d.journal.Close(); err != nil {
			t.Errorf("the journal closes: %v", err)
		}
	}
}

func (*monthsDaemon) parse(t *testing.T, config []byte) *configs.Config {
	t.Helper()
	c, err := configs.Parse("healthd.toml", config)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, config)
	}
	return c
}

// reload is healthd reload with another file.
func (d *monthsDaemon) reload(t *testing.T, config []byte) {
	t.Helper()
	c := d.parse(t, config)
	if err := d.supervisor.Reload(t.Context(), c.Resolve, c.Guard); err != nil {
		t.Fatal(err)
	}
	d.config.Store(c)
	select {
	case d.refresh <- struct{}{}:
	default:
	}
	d.reloads.Done(true, time.Now())
	d.journal.Record(core.Event{Time: time.Now(), Reason: core.EventReloaded, Message: "The configuration was reloaded"})
}

// sizes is all that is looked at: the census, and what it cannot see.
func (d *monthsDaemon) sizes(t *testing.T, dir string) map[string]int {
	t.Helper()
	all := takeCensus(d.loop, d.journal, d.prober, d.watcher, d.config.Load())
	d.letGoOn(t)
	all[eventsKept] = len(d.journal.Events("", time.Time{}))
	all[seriesShown] = d.series(t)
	file, err := os.Stat(filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	all[fileBytes] = int(file.Size())
	all[goroutines] = runtime.NumGoroutine()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	all[heapBytes] = int(mem.HeapAlloc)
	return all
}

// letGoOn tells the race detector that what the loop, its probes and the watcher change from here on comes after
// what was read before.
func (d *monthsDaemon) letGoOn(t *testing.T) {
	t.Helper()
	if _, err := supervisor.LoopOf(t.Context(), d.supervisor); err != nil {
		t.Fatal(err)
	}
	d.engine.locked(func() {})
}

// What the census cannot see.
const (
	eventsKept  = "events in the journal"
	seriesShown = "series of metrics"
	fileBytes   = "bytes of journal.db"
	goroutines  = "goroutines"
	heapBytes   = "bytes of the heap"
)

// series scrapes the metrics, and returns how many there are.
func (d *monthsDaemon) series(t *testing.T) int {
	t.Helper()
	w := httptest.NewRecorder()
	d.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("a scrape gets %d: %s", w.Code, w.Body)
	}
	n := 0
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if line := lines.Bytes(); len(line) > 0 && !bytes.HasPrefix(line, []byte("#")) {
			n++
		}
	}
	return n
}
