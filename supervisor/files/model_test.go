package files

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

var modelSeeds = flag.Int("model-seeds", 8, "how many hosts TestModel plays")

// model plays a host at random: members come, go, flap and drain, disks, checks and reloads fail or are slow, daemons are
// replaced. What its readers have read says whether a Publisher tells the truth.
type model struct {
	*scene
	*rand.Rand
	readers []string // what the reader of each file has read
	state   map[string]*played
	calm    bool   // nothing fails
	outs    int    // how often a member that was ready was not any more
	goneDir string // of the files while the disk is away
}

// played is a member.
type played struct {
	ready, awaiting, told bool
	run                   int64
}

const modelReload = "reload-"

// newModel has a file for each way of checking.
func newModel(t *testing.T, seed uint64) *model {
	s := newScene(t, func(f *File) { f.Reload = []string{modelReload + "0"} })
	s.add("checked", func(f *File) { f.Check, f.Reload = []string{"check"}, []string{modelReload + "1"} })
	s.add("looked", func(f *File) {
		f.Check, f.Reload, f.MinInterval = []string{"check", "{candidate}"}, []string{modelReload + "2"}, 3*time.Second
	})
	m := &model{scene: s, Rand: rand.New(rand.NewPCG(seed, 0)), readers: make([]string, len(s.files)), state: map[string]*played{}}
	for _, name := range []string{"a", "b", "c", "d"} {
		m.state[name] = &played{run: 1}
		m.put(name)
	}
	s.plays = m
	s.answers(m.command)
	return m
}

// put shows a member as it is.
func (m *model) put(name string) {
	p := m.state[name]
	v := member("shop/web", name, int(name[0]-'a'), func(st *core.State) {
		switch {
		case p.awaiting:
			isAwaiting(st)
			if p.told {
				st.Action.Withdrawn = time.Now()
			}
		case p.ready:
			isReady(st)
		}
	})
	v.State.Run.ID.Started = p.run
	m.board.Show(v)
}

// Withdrawn implements Supervisor: no reader may have a run that was said to be out of all files.
func (m *model) Withdrawn(_ context.Context, run runtime.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.state[run.ID]
	if p.run != run.Started || !p.awaiting {
		return nil // it comes late
	}
	p.told = true
	for i, read := range m.readers {
		if has(read, run.ID) {
			m.t.Errorf("after %v: %s is told to be out, and the reader of %s has %q", time.Since(m.began), run.ID, m.files[i].Path, read)
		}
	}
	return nil
}

func has(content, name string) bool { return strings.Contains(content, " "+name) }

// command is a check or a reload that takes its time, and may fail or be killed. A reader reads at any moment of it, and
// perhaps even if it then fails.
func (m *model) command(ctx context.Context, command string) (string, error) {
	m.mu.Lock()
	before, after, fails, reads := m.pause(), m.pause(), !m.calm && m.IntN(4) == 0, m.IntN(2) == 0
	m.mu.Unlock()
	if !sleepFor(ctx, before) {
		return "", errors.New("killed")
	}
	if which, found := strings.CutPrefix(command, modelReload); found && (!fails || reads) {
		fails = !m.read(int(which[0]-'0')) || fails
	}
	if !sleepFor(ctx, after) {
		return "", errors.New("killed")
	}
	if fails {
		return "", errors.New("exit status 1")
	}
	return "", nil
}

func (m *model) read(reader int) bool {
	text, err := os.ReadFile(m.files[reader].Path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return false
	}
	m.readers[reader] = string(text)
	for name, p := range m.state {
		if p.awaiting && p.told && has(string(text), name) {
			m.t.Errorf("after %v: %s was told to be out, and the reader of %s reads %q", time.Since(m.began), name, m.files[reader].Path, text)
		}
	}
	return true
}

// pause is short, or longer than a command may take.
func (m *model) pause() time.Duration {
	all := []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 700 * time.Millisecond, 12 * time.Second}
	i := m.IntN(12)
	if i >= len(all) || m.calm {
		i %= 4
	}
	return all[i]
}

func (m *model) lockedPause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pause()
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// step is one thing that happens.
func (m *model) step() {
	m.mu.Lock()
	name := string(rune('a' + m.IntN(len(m.state))))
	p, do := m.state[name], m.IntN(20)
	was := p.ready && !p.awaiting
	switch {
	case do < 10 && !p.awaiting:
		p.ready = !p.ready
	case do < 13 && !p.awaiting:
		p.awaiting, p.told = true, false
	case do < 16 && p.awaiting: // stopped and started again, or held and ready at once
		*p = played{run: p.run + int64(m.IntN(2)), ready: m.IntN(2) == 0}
	}
	if was && (!p.ready || p.awaiting) {
		m.outs++
	}
	m.mu.Unlock()
	switch {
	case do == 17:
		m.end()
		for _, name := range []string{"a", "b", "c", "d"} { // while no daemon runs
			if p := m.state[name]; !p.awaiting && m.IntN(3) == 0 {
				if p.ready = !p.ready; !p.ready {
					m.outs++
				}
				m.put(name)
			}
		}
		m.start()
	case do == 18 && m.goneDir == "":
		m.goneDir = m.dir + ".gone"
		must(0, os.Rename(m.dir, m.goneDir))
	case do == 18, do == 19:
		m.diskBack()
	default:
		m.put(name)
	}
}

func (m *model) diskBack() {
	if m.goneDir != "" {
		_ = os.RemoveAll(m.dir)
		must(0, os.Rename(m.goneDir, m.dir))
		m.goneDir = ""
	}
}

// settles says that all is as it should be when nothing has failed for long.
func (m *model) settles() {
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
	m.diskBack()
	m.after(5 * time.Minute)
	m.mu.Lock()
	defer m.mu.Unlock()
	want := "shop/web:"
	for _, name := range []string{"a", "b", "c", "d"} {
		p := m.state[name]
		if p.ready && !p.awaiting {
			want += " " + name
		}
		if p.awaiting && !p.told {
			m.t.Errorf("nobody is told that %s is out", name)
		}
	}
	want += ";"
	for i := range m.files {
		if got := string(must(os.ReadFile(m.files[i].Path))); got != want || m.readers[i] != want {
			m.t.Errorf("%s has %q, its reader %q, want %q", m.files[i].Path, got, m.readers[i], want)
		}
	}
}

// seeds is how many hosts are played: in ring one fewer.
func seeds() int {
	if testing.Short() {
		return min(*modelSeeds, 3)
	}
	return *modelSeeds
}

// Whatever happens, nobody is told of a withdrawal whose readers do not know of it, and in the end all know what is.
func TestModel(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, uint64(seed))
				m.start()
				for range 3 {
					for range 60 {
						m.step()
						m.after(m.lockedPause())
					}
					m.settles()
				}
				m.end()
				m.wantsClean(m.names()...)
			})
		})
	}
}

// A file is written as often as somebody must be taken out, and else once within its time.
func TestModelWrites(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, uint64(seed))
				m.calm = true
				m.start()
				for range 300 {
					m.step()
					m.after(m.lockedPause() % (300 * time.Millisecond))
				}
				m.settles()
				spent := time.Since(m.began)
				if writes, _ := m.metric("healthd_published_file_writes_total"); int(writes) > m.outs+int(spent/m.files[0].MinInterval)+1 {
					t.Errorf("%v writes within %v, in which %d were taken out", writes, spent, m.outs)
				}
				m.end()
			})
		})
	}
}

func (m *model) names() []string {
	var all []string
	for i := range m.files {
		all = append(all, filepath.Base(m.files[i].Path))
	}
	slices.Sort(all)
	return all
}
