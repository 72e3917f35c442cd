package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"healthd/configs"
)

// listening returns a configuration with only a control socket, of that group.
func listening(t *testing.T, group string) *configs.Config {
	t.Helper()
	text := fmt.Sprintf("[listen]\nhttp = \"\"\nagent = \"\"\ncontrol = %q\n", filepath.Join(t.TempDir(), "s"))
	if group != "" {
		text += fmt.Sprintf("control_group = %q\n", group)
	}
	c, err := configs.Parse("healthd.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGroupOfTheControlSocket(t *testing.T) {
	for group, want := range map[string]uint32{"": uint32(os.Getgid()), "root": 0, "12345": 12345} {
		c := listening(t, group)
		ls, err := listen(c)
		if err != nil {
			t.Errorf("%q: %v", group, err)
			continue
		}
		info, err := os.Stat(c.Listen.Control)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Gid; got != want || info.Mode().Perm() != 0o660 {
			t.Errorf("%q: group %d, mode %v, want %d", group, got, info.Mode(), want)
		}
		ls.close()
	}
}

// A daemon whose socket nobody could use says what to mend, and leaves nothing behind.
func TestUnknownGroupOfTheControlSocket(t *testing.T) {
	for _, group := range []string{"no-such-group", "-1", "4294967295", "4294967296"} {
		c := listening(t, group)
		_, err := listen(c)
		if want := fmt.Sprintf("healthd.toml:5: listen.control_group: there is no group %q on this host", group); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := os.Stat(c.Listen.Control); err == nil {
			t.Error("there is a socket")
		}
	}
	config := write(t, "h.toml", "[listen]\ncontrol_group = \"no-such-group\"\n")
	if got := healthd(t, "run", "--config", config); got.code != 1 || !strings.HasPrefix(got.stderr, "healthd: "+config+":2: listen.control_group: ") {
		t.Errorf("%+v", got)
	}
}

// A SIGHUP brings back a control socket that was removed.
func TestRemovedControlSocket(t *testing.T) {
	p := startDaemon(t, "unix://"+filepath.Join(t.TempDir(), "docker.sock"), "")
	p.notify.await(t, "WATCHDOG=1")
	const gone = "the control socket "
	for range 2 { // the one made anew may be removed, too
		if err := os.Remove(p.socket); err != nil {
			t.Fatal(err)
		}
		p.notify.awaitAny(t, gone, func(status string) bool {
			return strings.Contains(status, gone+p.socket+" is gone: systemctl restart healthd")
		})
		p.signal(syscall.SIGHUP)
		p.notify.awaitAny(t, "STATUS= without it", func(status string) bool {
			return strings.HasPrefix(status, "STATUS=") && !strings.Contains(status, gone)
		})
		if got := healthd(t, "live", "--socket", p.socket); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 || strings.Count(p.log.String(), "the control socket was removed, and is made anew") != 2 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(p.socket); err == nil {
		t.Error("the control socket was left behind")
	}
}

// A socket that is there is left alone, and connections outlive the path.
func TestControlSocketThatIsMadeAnew(t *testing.T) {
	c := listening(t, "12345")
	ls, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.close()
	if renewed, err := ls.control.renew(); renewed || err != nil {
		t.Errorf("of one that is there: %v, %v", renewed, err)
	}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for conn, err := ls.control.Accept(); err == nil; conn, err = ls.control.Accept() {
			accepted <- conn
		}
	}()
	dial := func() (client, server net.Conn) {
		client, err := net.Dial("unix", c.Listen.Control)
		if err != nil {
			t.Fatal(err)
		}
		return client, <-accepted
	}
	oldClient, oldServer := dial()
	defer oldClient.Close()
	if err := os.Remove(c.Listen.Control); err != nil {
		t.Fatal(err)
	}
	if renewed, err := ls.control.renew(); !renewed || err != nil {
		t.Errorf("of one that is gone: %v, %v", renewed, err)
	}
	newClient, newServer := dial()
	defer newClient.Close()
	for _, conn := range []net.Conn{oldServer, newServer} {
		conn.Close()
	}
	if n, err := oldClient.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the old connection: %d, %v", n, err)
	}
	info, err := os.Stat(c.Listen.Control)
	if err != nil || info.Sys().(*syscall.Stat_t).Gid != 12345 || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	ls.close()
	if _, open := <-accepted; open {
		t.Error("it accepts after its end")
	}
	if renewed, err := ls.control.renew(); renewed || err != nil {
		t.Errorf("after its end: %v, %v", renewed, err)
	}
}
