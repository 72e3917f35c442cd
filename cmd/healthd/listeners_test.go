package main

import (
	"fmt"
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
