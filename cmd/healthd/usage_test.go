package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args   string
		stderr string
	}{
		{"stauts", `healthd: unknown command "stauts" for "healthd"`},
		{"hold", `healthd: hold takes names, or --all`},
		{"hold a --for 10", `healthd: --for must be a duration such as 10m, it is "10"`},
		{"hold a --for=", `healthd: --for must be a duration such as 10m, it is ""`},
		{"hold a --for 0s", `healthd: --for must be more than 0s, it is "0s"`},
		{"hold a --for -1s", `healthd: --for must be more than 0s, it is "-1s"`},
		{"hold a --for 100000h", `healthd: --for must be at most 87600h, which is 10 years, it is "100000h"`},
		{"--nope", "healthd: unknown flag: --nope"},
		{"run extra", `healthd: unknown command "extra" for "healthd run"`},
		{"check extra.toml", "healthd: check takes no arguments: healthd check --config extra.toml\n"},
		{"check --daemon --container a", "healthd: check takes --daemon, --container or --compose, not --daemon and --container\n"},
		{"check --compose a --container b", "healthd: check takes --daemon, --container or --compose, not --container and --compose\n"},
		{"check --compose a --compose=", "healthd: --compose needs a file\n"},
		{"check --container=", "healthd: --container needs a name\n"},
		{"check a b", "healthd: check takes no arguments: healthd check --config a --config b\n"},
		{"check --config", "healthd: flag needs an argument: --config"},
		{"status -o xml", `healthd: --output must be one of table, wide, json, name, it is "xml"`},
		{"status web-1 --all", "healthd: status takes names or --all, not both"},
		{"status --watch --all", "healthd: status takes --all or --watch, not both"},
		{"status --fleet --all", "healthd: status takes --fleet or --all, not both"},
		{"status --fleet -o name", "healthd: status --fleet takes -o table, wide or json, not name"},
		{"hold --fleet a --for 0s", `healthd: --for must be more than 0s, it is "0s"`},
		{"events -o wide", `healthd: --output must be one of table, json, it is "wide"`},
		{"events a b", "healthd: events takes [NAME]"},
		{"events --since soon", "healthd: --since must be a duration such as 10m"},
		{"report a b", "healthd: report takes [SERVICE]"},
		{"report -o wide", `healthd: --output must be one of table, json, it is "wide"`},
		{"report --since soon", "healthd: --since must be a duration such as 10m"},
		{"report --since 59m", "healthd: --since must be from 1h to 90d ago"},
		{"report --since 91d", "healthd: --since must be from 1h to 90d ago"},
		{"probe", "healthd: probe takes NAME [startup|liveness|readiness]"},
		{"probe web-1 health", "healthd: the probe must be one of startup, liveness, readiness, it is \"health\""},
		{"explain", "healthd: explain takes NAME"},
		{"restart a b", "healthd: restart takes NAME"},
		{"gate web-1 a", "healthd: gate takes NAME TYPE True|False, not 2 arguments"},
		{"gate web-1 a maybe", `healthd: the gate must be True or False, it is "maybe"` + "\n"},
		{"gate web-1 a yes", `healthd: the gate must be True or False, it is "yes"`},
		{"completion tcsh", "healthd: completion takes no arguments, not 1 argument"},
		{"restart a --timeout 0", `healthd: --timeout must be more than 0s, it is "0s"`},
		{"restart a --timeout -1s", `healthd: --timeout must be more than 0s, it is "-1s"`},
		{"import", "healthd: import takes docker, compose, kubernetes or nomad\n"},
		{"import systemd", "healthd: import takes docker, compose, kubernetes or nomad, not systemd\n"},
		{"import compose", "healthd: import compose takes files, or - for stdin\n"},
		{"help bogus", `healthd: unknown command "bogus" for "healthd"`},
		{"help completion bogus", `healthd: unknown command "bogus" for "healthd completion"`},
		{"restart --timeout x a", `healthd: invalid argument "x" for "--timeout" flag`},
	} {
		got := inside(strings.Fields(tt.args)...)
		if got.code != 2 || !strings.HasPrefix(got.stderr, tt.stderr) || !strings.Contains(got.stderr, " --help'.\n") || got.stdout != "" {
			t.Errorf("%s: %d %q %q, want 2 %q", tt.args, got.code, got.stdout, got.stderr, tt.stderr)
		}
	}
	if got := inside("stauts"); !strings.Contains(got.stderr, "status") {
		t.Errorf("no suggestion in %q", got.stderr)
	}
}

// Every command shows an example in its help, and can be called as that says.
func TestExamples(t *testing.T) {
	root := (&app{}).rootCommand()
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.Name())
		}
		for example := range strings.Lines(cmd.Example) {
			words := wordsOf(example)
			called, args, err := (&app{}).rootCommand().Find(words[1:])
			if err == nil {
				err = called.ParseFlags(args)
			}
			if err == nil {
				err = called.ValidateArgs(called.Flags().Args())
			}
			if err != nil || cmd != root && called.Name() != cmd.Name() && called.Parent().Name() != cmd.Name() || words[0] != "healthd" {
				t.Errorf("%s: %s: %v", cmd.Name(), example, err)
			}
		}
		if got := inside(cmd.Name(), "--help"); cmd != root && (got.code != 0 || !strings.Contains(got.stdout, "\nExamples:\n  healthd ")) {
			t.Errorf("%s: %+v", cmd.Name(), got)
		}
	}
}

// wordsOf returns the words of the first command of a line, as a shell does.
func wordsOf(line string) []string {
	first := line[:strings.IndexAny(line+"|", "|>&\n")]
	var words []string
	for i, part := range strings.Split(first, `"`) {
		if quoted := i%2 == 1; quoted {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

func TestProgramExitCodes(t *testing.T) {
	bad := write(t, "bad.toml", "[listen]\nhttpd = 1\n[[spec]]\nname = 3\n")
	good := write(t, "good.toml", "[[spec]]\nname = \"web\"\nmatch = { a = \"b\" }\n[spec.liveness]\ntcp_socket = { port = 80 }\n")
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"help", []string{"--help"}, 0},
		{"version", []string{"version"}, 0},
		{"completion", []string{"completion", "bash"}, 0},
		{"valid", []string{"check", "--config", good}, 0},
		{"invalid", []string{"check", "--config", bad}, 1},
		{"absent", []string{"check", "--config", bad + ".none"}, 1},
		{"run with an invalid configuration", []string{"run", "--config", bad}, 1},
		{"no daemon", []string{"status", "--socket", bad + ".sock"}, 1},
		{"unknown command", []string{"nope"}, 2},
	} {
		if got := healthd(t, tt.args...); got.code != tt.want {
			t.Errorf("%s: exit code %d, want %d: %s%s", tt.name, got.code, tt.want, got.stdout, got.stderr)
		}
	}
}

func TestCheck(t *testing.T) {
	none := filepath.Join(t.TempDir(), "control.sock") // whatever runs on this machine is not asked
	good := write(t, "good.toml", "[[spec]]\nname = \"web\"\nmatch = { a = \"b\" }\n[spec.liveness]\ntcp_socket = { port = 80 }\n")
	if got := inside("check", "--config", good, "--socket", none); got.stdout != good+": 1 spec\nconfiguration is valid: 1 spec\n" || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	two := "[[spec]]\nname = \"a\"\nmatch = { a = \"*\" }\n[spec.readiness]\ntcp_socket = { port = 80 }\n" +
		"[[spec]]\nname = \"b\"\nmatch = { a = \"b\" }\n[spec.readiness]\ntcp_socket = { port = 80 }\n"
	doubtful := write(t, "doubtful.toml", two)
	if got := inside("check", "--config", doubtful, "--socket", none); got.code != 0 || got.stdout != doubtful+": 2 specs\nconfiguration is valid: 2 specs, 1 warning\n" ||
		!strings.HasPrefix(got.stderr, "warning: "+doubtful+":8: spec[b].match: ") {
		t.Errorf("%+v", got)
	}
	bad := write(t, "bad.toml", "[listen]\nhttpd = 1\n[[spec]]\nname = 3\n")
	got := inside("check", "--config", bad)
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	last := lines[len(lines)-1]
	if len(lines) < 3 || !strings.HasPrefix(lines[0], bad+":2: listen.httpd: ") || !strings.HasPrefix(lines[1], bad+":") ||
		!strings.HasPrefix(last, "healthd: cannot use the configuration: ") {
		t.Errorf("got %q", got.stderr)
	}
}

func TestVersion(t *testing.T) {
	got := inside("version").stdout
	for _, want := range []string{"healthd ", "\ncommit: ", "\ngo: go1."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if flag := inside("--version"); flag.code != 0 || flag.stdout != got || flag.stderr != "" {
		t.Errorf("--version: %+v", flag)
	}
}

func TestNoDaemon(t *testing.T) {
	none := filepath.Join(t.TempDir(), "control.sock")
	cannot := "healthd: cannot reach the daemon at " + none + ": is healthd running? (systemctl start healthd"
	want := cannot + "; if it runs, its socket was removed: systemctl kill -s HUP healthd)\n"
	for _, args := range []string{"status", "status web-1", "status --watch", "explain web-1", "events", "events -f", "probe web-1", "restart web-1", "hold web-1", "resume web-1", "gate web-1 a True", "reload", "live"} {
		got := inside(append(strings.Fields(args), "--socket", none)...)
		if got.code != 1 || got.stderr != want || got.stdout != "" {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
	ln, err := net.Listen("unix", none)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as if killed
	ln.Close()
	if got := inside("status", "--socket", none); got.stderr != cannot+")\n" {
		t.Errorf("stale socket: %+v", got)
	}
}

func TestSocketFromTheConfiguration(t *testing.T) {
	config := write(t, "h.toml", "[listen]\ncontrol = \"/nonexistent/here.sock\"\n")
	if got := inside("status", "--config", config); !strings.Contains(got.stderr, "at /nonexistent/here.sock: is healthd running?") {
		t.Errorf("%+v", got)
	}
	got := inside("status", "--config", config+".none")
	if got.code != 1 || !strings.Contains(got.stderr, "cannot find the control socket (name it with --socket)") {
		t.Errorf("%+v", got)
	}
}

// DNS needs the port for UDP, too.
func TestRunRefusesAPortTakenForUDP(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := write(t, "h.toml", fmt.Sprintf("[listen]\nhttp = \"\"\nagent = \"\"\ndns = %q\ncontrol = %q\n[state]\ndir = \"\"\n", taken.LocalAddr(), t.TempDir()+"/s"))
	want := "healthd: cannot listen on " + taken.LocalAddr().String() + ": another program listens there: stop it, or change listen.dns\n"
	if got := healthd(t, "run", "--config", config); got.code != 1 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestRunRefusesATakenPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	config := write(t, "h.toml", `[listen]
http = "`+ln.Addr().String()+`"
control = "`+dir+`/control.sock"
[state]
dir = "`+dir+`/state"
`)
	got := healthd(t, "run", "--config", config)
	want := "healthd: cannot listen on " + ln.Addr().String() + ": another program listens there: stop it, or change listen.http\n"
	if got.code != 1 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
	if _, err := os.Stat(dir + "/control.sock"); err == nil {
		t.Error("the control socket was left behind")
	}
}
