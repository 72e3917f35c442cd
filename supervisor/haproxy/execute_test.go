package haproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// runtimeAPI answers as HAProxy does: answer has what it says to a command.
func runtimeAPI(t *testing.T, answer func(command string) string) (l *instance) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	serve(t, path, func(conn net.Conn) {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			text := ""
			if lines.Text() != "prompt" {
				text = answer(lines.Text())
			}
			if _, err := io.WriteString(conn, text+"\n> "); err != nil {
				return
			}
		}
	})
	l = newInstance(&HAProxy{metrics: newMetrics()}, socket{path, "unix", path})
	l.process = process{pid: "8", started: "1767323045", version: "3.0.11"}
	return l
}

// When the time is over, the commands of a server are sent to the end all the same: half of them would look like an
// operator's.
func TestCommandsOfAServerStayTogether(t *testing.T) {
	t.Parallel()
	var got atomic.Int32
	l := runtimeAPI(t, func(command string) string {
		if command == "show info" {
			return infoText
		}
		got.Add(1)
		return ""
	})
	var commands []command
	for i := range 1000 {
		commands = append(commands, command{fmt.Sprintf("set server web/c%d weight 0%%", i/5), fmt.Sprintf("web/c%d", i/5), isSilent})
	}
	const want = 260 // 256 would end within the commands of a server
	done, failed, err := l.execute(t.Context(), commands, 0)
	if done != want || int(got.Load()) != want || len(failed) > 0 || err != nil {
		t.Errorf("%d are said to be executed, and %d came, want %d; %v, %v", done, got.Load(), want, failed, err)
	}
	if done, _, err := l.execute(t.Context(), commands, time.Minute); done != len(commands) || err != nil {
		t.Errorf("%d, %v, want all", done, err)
	}
	k := &look{commands: commands}
	if n := k.cutAfter(260); n != 260 || len(k.commands) != 260 || !k.cut {
		t.Errorf("%d, %d, %v", n, len(k.commands), k.cut)
	}
	if n := k.cutAfter(300); n != 260 || k.cut {
		t.Errorf("%d, %v", n, k.cut)
	}
}

// Commands that reach another process than the one that was looked at count for nothing.
func TestCommandsToANewProcess(t *testing.T) {
	t.Parallel()
	l := runtimeAPI(t, func(command string) string {
		if command == "show info" {
			return strings.Replace(infoText, "Pid: 8", "Pid: 9", 1)
		}
		return "No such server."
	})
	done, failed, err := l.execute(t.Context(), []command{{"set server web/c1 agent up", "web/c1", isSilent}}, time.Minute)
	if !errors.Is(err, errNewProcess) || done != 0 || len(failed) > 0 {
		t.Errorf("%d, %v, %v", done, failed, err)
	}
}
