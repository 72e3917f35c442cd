package files

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
)

// elsewhere is a member of shop/web on host h2.
func elsewhere(name string, change func(*supervisor.Member)) supervisor.Member {
	m := supervisor.Member{
		Host: "h2", Container: name, ID: "h2/" + name, Run: runtime.Run{ID: "h2/" + name, Started: 1}, Service: "shop/web",
		Address: "192.168.0.2", Port: 32768, Ready: true,
	}
	if change != nil {
		change(&m)
	}
	return m
}

func isAwaitingThere(m *supervisor.Member) {
	m.Ready, m.Draining, m.DrainingReady, m.AwaitsDrain, m.AwaitsWithdrawal = false, true, true, true, true
}

// The members of other hosts come, drain and go as those of this one do.
func TestMembersOfOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.ready("a")
		s.start()
		s.after(time.Minute)
		s.board.ShowRemote([]supervisor.Member{elsewhere("a", nil)}, nil)
		s.wants("shop/web: a h2:a;")
		s.after(time.Minute)
		s.answers(func(context.Context, string) (string, error) { time.Sleep(300 * time.Millisecond); return "", nil })
		s.board.ShowRemote([]supervisor.Member{elsewhere("a", isAwaitingThere)}, nil)
		s.after(299 * time.Millisecond)
		s.wants("shop/web: a;")
		s.wantsWithdrawn()
		s.after(time.Millisecond)
		s.wantsWithdrawn("2m0.3s h2/a")
		s.after(time.Second)
		s.wantsWithdrawn("2m1.3s h2/a")
		s.board.ShowRemote(nil, []string{"h2/a"})
		s.after(time.Minute)
		s.wants("shop/web: a;")
		s.wantsWithdrawn()
		s.end()
	})
}

// Whom no reader here knows is out at once. Without a fleet, that is nobody's business.
func TestWithdrawnOfOtherHostWithoutFile(t *testing.T) {
	for name, tt := range map[string]struct {
		file  func(*File)
		fleet bool
		want  []string
	}{
		"another service's":            {func(f *File) { f.Covers = func(name string) bool { return name == "blog/api" } }, true, []string{"0s b", "0s h2/a"}},
		"a file that nobody waits for": {func(f *File) { f.Drain = 0 }, true, []string{"0s b", "0s h2/a"}},
		"no fleet":                     {func(f *File) { f.Drain = 0 }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, tt.file)
				if tt.fleet {
					s.board.ExpectRemote()
					s.board.ShowRemote([]supervisor.Member{elsewhere("a", isAwaitingThere)}, nil)
				}
				s.awaits("b")
				s.start()
				synctest.Wait()
				s.mu.Lock()
				slices.Sort(s.withdrawn)
				s.mu.Unlock()
				s.wantsWithdrawn(tt.want...)
				s.end()
			})
		})
	}
}

// Until the members of other hosts are known, the file stays as it is.
func TestUntilFleetIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, reloaded)
		s.board.ExpectRemote()
		if err := os.WriteFile(s.files[0].Path, []byte("as it was"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.ready("a")
		s.start()
		s.after(time.Hour)
		s.wants("as it was")
		s.board.ShowRemote([]supervisor.Member{elsewhere("a", nil)}, nil)
		s.board.RemoteKnown()
		s.wants("shop/web: a h2:a;")
		s.end()
	})
}

// Whatever other hosts call their containers, templates get names without what a syntax may mean, and no two the same.
func TestNamesOfOtherHosts(t *testing.T) {
	at := func(host, name, id string) supervisor.Endpoint {
		e := supervisor.Endpoint{Container: name, ID: id}
		if host != "" {
			e = supervisor.Endpoint{Host: host, Container: host + ":" + name, ID: host + "/" + id}
		}
		return e
	}
	plain := map[string]string{}
	for _, tt := range []struct {
		e    supervisor.Endpoint
		want string
	}{
		{at("", "web", "1"), "web web"}, {at("h2", "web", "1"), "h2:web h2--web"}, {at("h2.example", "web", "1"), "h2.example:web h2.example--web"},
		{at("", "h2--web", "2"), "h2--web h2-_-web"}, {at("h2-", "web", "1"), "h2-:web h2-_--web"}, {at("h2", "-web", "1"), "h2:-web h2---web"},
		{at("h2", "docker:api", "beef"), "h2:beef h2--beef"}, {at("", "docker:api", "beef"), "beef beef"},
		{at("h2", "x; }", "no id"), "h2:" + textOf("h2/no id") + " h2--" + textOf("h2/no id")},
		{at("h; }", "web", "1"), textOf("h; }") + ":web " + textOf("h; }") + "--web"},
	} {
		name, text := containerText(&tt.e)
		if got := name + " " + text; got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.e, got, tt.want)
		}
		if other, twice := plain[text]; twice || !plainText.MatchString(text) {
			t.Errorf("%s and %s are both %s", name, other, text)
		}
		plain[text] = name
	}
}

// FuzzRenderOfOtherHosts is FuzzRender for what other hosts say.
func FuzzRenderOfOtherHosts(f *testing.F) {
	f.Add("h2", "web-1", "id", "10.0.0.2")
	f.Add("h\n}", "x\" }\n", "{{", "::1%x;")
	f.Fuzz(func(t *testing.T, host, container, id, address string) {
		e := supervisor.Endpoint{Host: host, Container: fmt.Sprint(host, ":", container), ID: host + "/" + id, Address: address, Port: 80, Ready: true}
		s := snapshotOf([]supervisor.Service{{Name: "shop/web", Endpoints: []supervisor.Endpoint{e}}}, everything, nil)
		for _, name := range shipped() {
			checkShape(t, name, mustRender(t, mustShip(t, name), s))
		}
		for _, of := range s.services {
			for _, m := range of.All {
				if !plainText.MatchString(m.Plain) || !plainText.MatchString(strings.Replace(m.Container, ":", "", 1)) || m.Host != "" && !plainText.MatchString(m.Host) {
					t.Errorf("got %+v", m)
				}
			}
		}
	})
}
