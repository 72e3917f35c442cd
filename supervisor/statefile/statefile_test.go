package statefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type content struct {
	Version int    `json:"version"`
	Text    string `json:"text"`
}

func TestWhatIsKept(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "state", "x.json"), Version: 2, Most: 1 << 10}
	var got content
	if found, err := f.Read(&got); found || err != nil {
		t.Fatalf("before the first write: %t, %v", found, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := os.MkdirAll(f.Path+".new", 0o700); text == "one" && err != nil {
			t.Fatal(err)
		}
		if err := f.Write(content{2, text}); err != nil {
			t.Fatal(err)
		}
		if found, err := f.Read(&got); !found || err != nil || got.Text != text {
			t.Errorf("read is %+v, %t, %v, want %s", got, found, err, text)
		}
		if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "unexpected end",
		"x":                       "invalid character",
		`{"version":3}`:           "has version 3, this healthd knows 2",
		`{"version":2,"text":[]}`: "cannot unmarshal",
		`{"version":2,"text":"` + strings.Repeat("x", 1<<10) + `"}`: "unexpected end",
	} {
		f := File{Path: filepath.Join(t.TempDir(), "x.json"), Version: 2, Most: 1 << 10}
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := f.Read(&content{})
		if found || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %t, %v, want %q", text, found, err, want)
			continue
		}
		if err := f.SetAside(err); !strings.Contains(err.Error(), f.Path+".damaged") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: set aside with %v", text, err)
		}
		if aside, err := os.ReadFile(f.Path + ".damaged"); err != nil || string(aside) != text {
			t.Errorf("%.40q: set aside is %q, %v", text, aside, err)
		}
	}
}

func TestNothingIsKeptWithoutAPath(t *testing.T) {
	f := File{Version: 1}
	if found, err := f.Read(&content{}); found || err != nil || f.Write(content{1, "x"}) != nil {
		t.Errorf("read %t, %v", found, err)
	}
}

// A failed write leaves what was there.
func TestFailedWrite(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "x.json"), Version: 1, Most: 1 << 10}
	if err := f.Write(content{1, "old"}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(f.Path+".new", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got content
	if err := f.Write(content{1, "new"}); err == nil {
		t.Error("the write did not fail")
	}
	if _, err := f.Read(&got); err != nil || got.Text != "old" {
		t.Errorf("left is %+v, %v", got, err)
	}
}
