package supervisor

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü 日本 🙂 <&>":      "plain äöü 日本 🙂 <&>",
		"a\u009b31mred":           `a\u009b31mred`,
		"\u202egnp.exe":           `\u202egnp.exe`,
		"\u2066x\u2069":           `\u2066x\u2069`,
		"\x1b[2J\a":               `\u001b[2J\u0007`,
		"tag \U000e0041":          `tag \udb40\udc41`,
		"not UTF-8 \xff":          `not UTF-8 \ufffd`,
		"two\nlines\tand a tab\r": "two\nlines\tand a tab" + `\u000d`,
	} {
		var b bytes.Buffer
		if n, err := (Escaping{&b}).Write([]byte(in)); n != len(in) || err != nil || b.String() != want {
			t.Errorf("%q: got %q, %d, %v", in, b.String(), n, err)
		}
	}
	// A program reads the same.
	const text = "a\u009b\u202e\U000e0041\x1b"
	var b bytes.Buffer
	var got string
	if err := json.NewEncoder(Escaping{&b}).Encode(text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != text {
		t.Errorf("got %q, %v", got, err)
	}
}
