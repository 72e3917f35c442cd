package configs

import (
	"os"
	"path/filepath"
	"testing"
)

// The socket is found although the configuration is broken; not where it may be another one.
func TestControlSocket(t *testing.T) {
	const listen = "[listen]\ncontrol = \"/a.sock\"\n"
	for _, tt := range []struct {
		name, text string
		want       string
		certain    bool
	}{
		{"right", listen, "/a.sock", true},
		{"none", "", defaultControl, true},
		{"wrong elsewhere", listen + "[[spec]]\nname = 3\n", "/a.sock", true},
		{"broken after it", listen + "[[spec]]\nname = \n", "/a.sock", true},
		{"broken in the next line", "[listen]\ncontrol = '/a.sock'\nhttp = “off”\n", "/a.sock", true},
		{"broken before it", "x = \n" + listen, defaultControl, false},
		{"is wrong itself", "[listen]\ncontrol = 3\n", defaultControl, true},
		{"is no path", "[listen]\ncontrol = \"a.sock\"\n", defaultControl, true},
	} {
		file := filepath.Join(t.TempDir(), "healthd.toml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, certain := ControlSocket([]string{file}); got != tt.want || certain != tt.certain {
			t.Errorf("%s: got %s, %v", tt.name, got, certain)
		}
	}
	if got, certain := ControlSocket([]string{"/nonexistent/healthd.toml"}); got != defaultControl || certain {
		t.Errorf("no file: got %s, %v", got, certain)
	}
}
