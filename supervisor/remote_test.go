package supervisor

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Whoever waits for a change hears of each that is one, and of no other.
func TestChangesOfOtherHostsAreTold(t *testing.T) {
	web := elsewhere("h2", "1", "web", "shop")
	drains := web
	drains.Ready, drains.Draining = false, true
	b := NewBoard(nil)
	b.ExpectRemote()
	for _, step := range []struct {
		what string
		do   func()
		told bool
	}{
		{"nothing", func() { b.ShowRemote(nil, nil) }, false},
		{"it is new", func() { b.ShowRemote([]Member{web}, nil) }, true},
		{"the same again", func() { b.ShowRemote([]Member{web}, nil) }, false},
		{"the list is whole", b.RemoteKnown, true},
		{"and again", b.RemoteKnown, false},
		{"it drains", func() { b.ShowRemote([]Member{drains}, nil) }, true},
		{"an unknown one is gone", func() { b.ShowRemote(nil, []string{"h2/2"}) }, false},
		{"it is gone", func() { b.ShowRemote(nil, []string{"h2/1"}) }, true},
		{"and again", func() { b.ShowRemote(nil, []string{"h2/1"}) }, false},
	} {
		changed, here := b.Changed(), b.ChangedHere()
		step.do()
		if told := isClosed(changed); told != step.told || isClosed(here) {
			t.Errorf("%s: told %v, want %v; as one of this host: %v", step.what, told, step.told, isClosed(here))
		}
	}
	changed, here := b.Changed(), b.ChangedHere()
	b.Show(&core.View{Container: &runtime.Container{ID: "a", Name: "a"}, State: core.NewState()})
	if !isClosed(changed) || !isClosed(here) {
		t.Error("a container of this host is not told of")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Readers see whole members while others come, change and go, and while the loop changes this host's containers.
func TestReadersOfOtherHosts(t *testing.T) {
	b := NewBoard([]RuntimeView{{Name: "docker", Synced: true}})
	var writers, readers sync.WaitGroup
	ended := make(chan struct{})
	writers.Go(func() {
		for i := range 2000 {
			m := elsewhere("h2", fmt.Sprint(i%20), fmt.Sprint("web-", i%10), fmt.Sprint("p", i%3, "/web"))
			m.Port, m.Run.Started = i, int64(i)
			b.ShowRemote([]Member{m}, []string{fmt.Sprint("h2/", (i+7)%20)})
		}
	})
	writers.Go(func() {
		slots := make([]*slot, 5)
		for i := range 2000 {
			s := &slots[i%len(slots)]
			if *s != nil {
				b.remove(*s)
				*s = nil // a reader may still have it
				continue
			}
			*s = &slot{}
			b.put(*s, published(fmt.Sprint("web-", i%len(slots)), fmt.Sprint("p", i%3, "/web"), i%2 == 0))
		}
	})
	look := func() {
		if m, err := b.FindMember("web/h2:web-3"); err == nil && (m.Container != "web-3" || int64(m.Port) != m.Run.Started) {
			t.Errorf("half a member: %+v", m)
		}
		_, local, others, _ := b.findOnAllHosts("p1/web")
		if slices.ContainsFunc(local, func(v *core.View) bool { return v.Service != "p1/web" }) || slices.ContainsFunc(others, func(m *Member) bool { return m.Service != "p1/web" }) {
			t.Errorf("members of other services: %+v, %+v", local, others)
		}
		_, _ = b.FindWholeService("web")
		_, _ = b.Member("h2/3")
		for range b.AllMembers() {
		}
		_ = b.Services()
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					look()
				}
			}
		})
	}
	writers.Wait()
	close(ended)
	readers.Wait()
}

// BenchmarkShowRemote measures the change of one member among others. It should cost the same with 100 and 10,000.
func BenchmarkShowRemote(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			board := &Board{}
			all := make([]Member, n)
			for i := range all {
				all[i] = elsewhere(fmt.Sprint("h", i%100), fmt.Sprint(i), fmt.Sprint("web-", i), "shop/web")
			}
			board.ShowRemote(all, nil)
			i := 0
			for b.Loop() {
				m := &all[i%n]
				m.Ready = !m.Ready
				board.ShowRemote(all[i%n:i%n+1], nil)
				i++
			}
		})
	}
}
