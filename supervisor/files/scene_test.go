package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// short is a template whose content fits a line of a test.
const short = `{{range services}}{{.Name}}:{{range .Ready}} {{.Container}}{{end}};{{else}}none;{{end}}`

// scene is a Publisher whose board and commands the test plays. It has one file unless the test adds more.
type scene struct {
	t     *testing.T
	board *supervisor.Board
	dir   string // of the file
	files []File
	state string

	plays Supervisor // nil: the scene itself

	now *Publisher // of this daemon
	end func()

	mu        sync.Mutex
	answer    func(ctx context.Context, command string) (string, error)
	ran       []string // "TIME COMMAND FILE'S CONTENT"
	events    []string
	withdrawn []string // "TIME CONTAINER"
	began     time.Time
}

func newScene(t *testing.T, change func(*File)) *scene {
	t.Helper()
	s := &scene{t: t, board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}}), dir: t.TempDir(), state: t.TempDir(), began: time.Now()}
	s.answer = func(context.Context, string) (string, error) { return "", nil }
	s.add("file", change)
	return s
}

// add adds a file of that name.
func (s *scene) add(name string, change func(*File)) {
	s.t.Helper()
	f := File{Path: filepath.Join(s.dir, name), Template: mustParse(s.t, short), Covers: everything, MinInterval: time.Second, Timeout: 10 * time.Second, Drain: time.Second}
	if change != nil {
		change(&f)
	}
	s.files = append(s.files, f)
}

func reloaded(f *File) { f.Reload = []string{"reload"} }
func checked(f *File)  { f.Check, f.Reload = []string{"check"}, []string{"reload"} }
func looked(f *File) {
	f.Check, f.Reload = []string{"check", "--config={candidate}"}, []string{"reload"}
}

// Record implements History.
func (s *scene) Record(ev core.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, strings.ReplaceAll(ev.Reason+": "+ev.Message, s.dir+"/", ""))
}

// Board implements Supervisor.
func (s *scene) Board() *supervisor.Board { return s.board }

// Withdrawn implements Supervisor.
func (s *scene) Withdrawn(_ context.Context, run runtime.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = append(s.withdrawn, fmt.Sprintf("%v %s", time.Since(s.began), run.ID))
	return nil
}

// start starts a daemon's Publisher.
func (s *scene) start() {
	s.t.Helper()
	p := New(Config{History: s, StateDir: s.state, Files: s.files})
	p.command = func(ctx context.Context, words []string) (string, error) {
		command := strings.Join(words, " ")
		s.mu.Lock()
		answer := s.answer
		s.ran = append(s.ran, fmt.Sprintf("%v %s %s", time.Since(s.began), words[0], s.shown(command)))
		s.mu.Unlock()
		return answer(ctx, words[0])
	}
	p.workers = func([]string) nginxLook { return nginxLook{} }
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	var of Supervisor = s
	if s.plays != nil {
		of = s.plays
	}
	go func() { done <- p.Run(ctx, of) }()
	s.now, s.end = p, func() {
		s.t.Helper()
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// shown returns the content that a command sees.
func (s *scene) shown(command string) string {
	path := s.files[0].Path
	if _, candidate, found := strings.Cut(command, "--config="); found {
		path = candidate
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "-"
	}
	return string(text)
}

func (s *scene) answers(answer func(ctx context.Context, command string) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// fails lets a command fail, and all others succeed.
func (s *scene) fails(which string) {
	s.answers(func(_ context.Context, command string) (string, error) {
		if command == which {
			return "it is wrong", errors.New("exit status 1")
		}
		return "", nil
	})
}

func (s *scene) succeeds() { s.fails("none") }

// hangs lets a command hang until it is killed.
func (s *scene) hangs(which string) {
	s.answers(func(ctx context.Context, command string) (string, error) {
		if command == which {
			<-ctx.Done()
			return "", errors.New("signal: killed")
		}
		return "", nil
	})
}

// member is a view of SERVICE/NAME, whose container is NAME with the address 10.0.0.N.
func member(service, name string, n int, change func(*core.State)) *core.View {
	v := &core.View{
		Container: &runtime.Container{Runtime: "docker", ID: name, Name: name, Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1), State: runtime.Running},
		Spec:      &core.Spec{Name: "web", Publish: core.Publish{Port: 80}}, Service: service,
		State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}}},
	}
	v.State.Run.ID = runtime.Run{ID: name, Started: 1}
	if change != nil {
		change(&v.State)
	}
	return v
}

func isReady(s *core.State) {
	s.Conditions.Ready.Status, s.Conditions.ContainerReady.Status = true, true
}

func isAwaiting(s *core.State) { s.Action.Stopping = core.ByLiveness }

// names are those of the members of shop/web that tests play: a to z.
func (s *scene) show(name string, change func(*core.State)) {
	s.board.Show(member("shop/web", name, int(name[0]-'a'), change))
}

func (s *scene) ready(names ...string) {
	for _, name := range names {
		s.show(name, isReady)
	}
}

func (s *scene) out(names ...string) {
	for _, name := range names {
		s.show(name, nil)
	}
}

func (s *scene) awaits(name string) { s.show(name, isAwaiting) }

// after lets time pass.
func (s *scene) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wants compares the file with what it should be.
func (s *scene) wants(want string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.shown(""); got != want {
		s.t.Errorf("after %v the file has %q, want %q", time.Since(s.began), got, want)
	}
}

// wantsRun compares the commands since it was last called.
func (s *scene) wantsRun(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ran, want) {
		s.t.Errorf("there ran\n\t%s\nwant\n\t%s", strings.Join(s.ran, "\n\t"), strings.Join(want, "\n\t"))
	}
	s.ran = nil
}

func (s *scene) wantsWithdrawn(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.withdrawn, want) {
		s.t.Errorf("withdrawn were\n\t%s\nwant\n\t%s", strings.Join(s.withdrawn, "\n\t"), strings.Join(want, "\n\t"))
	}
	s.withdrawn = nil
}

// wantsEvents compares the begins of the events since it was last called.
func (s *scene) wantsEvents(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) != len(want) || !slices.EqualFunc(s.events, want, strings.HasPrefix) {
		s.t.Errorf("events\n\t%s\nwant\n\t%s", strings.Join(s.events, "\n\t"), strings.Join(want, "\n\t"))
	}
	s.events = nil
}

// metric returns the value of a metric of the first file, and how many series it has.
func (s *scene) metric(name string) (value float64, series int) {
	s.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.now)
	families, err := registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				series++
				if m.GetLabel()[0].GetValue() == s.files[0].Path {
					value = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return value, series
}

// wantsClean says that the file's directory and the state directory have nothing but what belongs there.
func (s *scene) wantsClean(names ...string) {
	s.t.Helper()
	for dir, want := range map[string][]string{s.dir: names, s.state: {"publish_files.json"}} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains(want, e.Name()) {
				s.t.Errorf("%s has %s", dir, e.Name())
			}
		}
	}
}

// boardOf is a board with these members of shop/web, which are ready.
func boardOf(names ...string) *supervisor.Board {
	b := supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}})
	for _, name := range names {
		b.Show(member("shop/web", name, int(name[0]-'a'), isReady))
	}
	return b
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
