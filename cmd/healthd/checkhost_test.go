package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"healthd/configs"
)

// names is a resolver of a few names.
func names(_ context.Context, name string) ([]netip.Addr, error) {
	switch name {
	case "here":
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")}, nil
	case "elsewhere":
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	case "nothing":
		return nil, nil
	}
	return nil, errors.New("no such host")
}

func TestWarningsOfTheHost(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name, config string
		want         []string
	}{
		{"all is well", "[listen]\nhttp = \"here:1\"\nagent = \"0.0.0.0:2\"\n[state]\ndir = \"" + dir + "\"\n", nil},
		{"off", "[listen]\nhttp = \"\"\nagent = \"\"\n[state]\ndir = \"\"\n", nil},
		{"every address", "[listen]\nhttp = \":1\"\n", nil},
		{"a port in use", "[listen]\nhttp = \"" + taken.Addr().String() + "\"\n", nil},
		{"a directory to be made", "[state]\ndir = \"" + dir + "/state/\"\n", nil},
		{"no such name", "[listen]\nhttp = \"nowhere:8646\"\nagent = \"nothing:1\"\n", []string{
			`listen.http: the name in "nowhere:8646" does not resolve: the daemon cannot listen there`, `listen.agent: the name in "nothing:1" does not resolve: the daemon cannot listen there`,
		}},
		{"another host's address for DNS", "[listen]\ndns = \"192.0.2.1:8653\"\n", []string{`listen.dns: "192.0.2.1:8653" is no address of this host: the daemon cannot listen there`}},
		{"another host's address", "[listen]\nhttp = \"192.0.2.1:8646\"\nagent = \"elsewhere:1\"\n", []string{
			`listen.http: "192.0.2.1:8646" is no address of this host: the daemon cannot listen there`, `listen.agent: "elsewhere:1" is no address of this host: the daemon cannot listen there`,
		}},
		{"a group", "[listen]\ncontrol_group = \"no-such-group\"\n", []string{`healthd.toml:2: listen.control_group: there is no group "no-such-group" on this host`}},
		{"a file", "[state]\ndir = \"" + file + "\"\n", []string{"state.dir: " + file + " is not a directory"}},
		{"no engine", "[[runtime]]\nendpoint = \"unix://" + dir + "/none\"\n[[runtime]]\nendpoint = \"tcp://127.0.0.1:1\"\n", nil},
		{"an engine in a file", "[[runtime]]\nendpoint = \"unix://" + file + "\"\n", []string{"runtime docker: " + file + " is a file, and no socket: the daemon cannot reach the engine there"}},
		{"an engine in a directory", "[[runtime]]\ntype = \"containerd\"\nendpoint = \"unix://" + dir + "\"\n", []string{"runtime containerd: " + dir + " is a directory, and no socket: the daemon cannot reach the engine there"}},
		{"no parent", "[state]\ndir = \"" + dir + "/a/b\"\n", []string{"state.dir: " + dir + "/a/b does not exist, nor does the directory it is in"}},
		{"a directory in a file", "[state]\ndir = \"" + file + "/a\"\n", []string{"state.dir: stat " + file + "/a: not a directory"}},
	} {
		text := tt.config
		if !strings.Contains(text, "[state]") {
			text += "[state]\ndir = \"\"\n"
		}
		c, err := configs.Parse("healthd.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := hostWarnings(t.Context(), c, names); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Root may write everywhere, so this asks as somebody else, in a thread that ends with the goroutine.
func TestWarningsOfWhatIsNotWritable(t *testing.T) {
	const nobody = 65534
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Setfsuid(nobody); err != nil {
			t.Error(err)
		}
		me := os.Geteuid()
		for dir, want := range map[string]string{
			"/": fmt.Sprintf("state.dir: / is not writable for user %d", me), "/healthd/": fmt.Sprintf("state.dir: /healthd/ does not exist, and user %d cannot make it", me), "/tmp": "",
		} {
			if got := warnStateDir(dir); got != want {
				t.Errorf("%s: %q, want %q", dir, got, want)
			}
		}
	}()
	<-done
}

// A warning is no problem.
func TestCheckOnAnotherHost(t *testing.T) {
	config := write(t, "h.toml", "[listen]\nagent = \"192.0.2.1:1\"\n[state]\ndir = \"\"\n")
	got := inside("check", "--config", config, "--socket", config+".none")
	if got.code != 0 || got.stderr != "warning: listen.agent: \"192.0.2.1:1\" is no address of this host: the daemon cannot listen there\n" ||
		!strings.HasSuffix(got.stdout, "\nconfiguration is valid: 0 specs, 1 warning\n") {
		t.Errorf("%+v", got)
	}
}
