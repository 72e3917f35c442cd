package prober

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestExpandWords(t *testing.T) {
	env := []string{"A=1st", "EMPTY=", "REF=$(A)", "EQ=a=b", "A=last", "odd", "A B=space", "=none"}
	for _, tt := range []struct {
		name, word, want string
		kubelet          string
	}{
		{"nothing to do", "plain (A) words", "plain (A) words", ""},
		{"known name", "$(A)", "last", "105"},
		{"unknown name", "$(B)", "$(B)", "105"},
		{"known and unknown", "x$(A)$(B)y", "xlast$(B)y", "105"},
		{"empty value", "<$(EMPTY)>", "<>", ""},
		{"value with =", "$(EQ)", "a=b", ""},
		{"value that looks like a reference", "$(REF)", "$(A)", ""},
		{"name with a space", "$(A B)", "space", ""},
		{"entry without value", "$(odd)", "$(odd)", ""},
		{"escaped reference", "$$(A)", "$(A)", ""},
		{"escaped, then a reference", "$$$(A)", "$last", ""},
		{"twice escaped", "$$$$(A)", "$$(A)", ""},
		{"escaped dollar", "a$$b", "a$b", ""},
		{"not closed", "$(A", "$(A", ""},
		{"not closed after one that is", "$(A)$(A", "last$(A", ""},
		{"not closed, with an escape in it", "$(A$$", "$(A$", ""},
		{"opened twice", "$($(A)", "$($(A)", ""},
		{"another after an unknown one", "$(B$(A)$(A)", "$(B$(A)last", ""},
		{"alone", "$", "$", ""},
		{"at the end", "a$", "a$", ""},
		{"before a letter", "$A $?", "$A $?", ""},
		{"a shell's braces", "${A}", "${A}", ""},
		{"closed before", ")$(A", ")$(A", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			w, err := expandWords([]string{"first", tt.word}, Target{Env: env})
			if want := []string{"first", tt.want}; err != nil || !slices.Equal(w.argv, want) {
				t.Errorf("got %q, %v, want %q", w.argv, err, want)
			}
			if want := "first " + tt.word; w.String() != want {
				t.Errorf("shown as %q, want %q", w, want)
			}
		})
	}
}

func TestExpandedCommandIsBounded(t *testing.T) {
	value := strings.Repeat("v", maxCommand/4)
	for _, tt := range []struct {
		name    string
		command []string
		fits    bool
	}{
		{"at the bound", []string{"$(V)$(V)", "$(V)", "$(V)"}, true},
		{"over it in a plain word", []string{"$(V)$(V)", "$(V)", "$(V)", "x"}, false},
		{"over it in one word", []string{"x$(V)$(V)$(V)$(V)"}, false},
		{"without variables", []string{strings.Repeat("x", maxCommand+1)}, false},
		{"a hundred thousand times", []string{strings.Repeat("$(V)", 100_000)}, false},
		{"a hundred thousand not closed", []string{strings.Repeat("$(", maxCommand/2)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w, err := expandWords(tt.command, Target{Env: []string{"V=" + value}})
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 100*maxCommand { // waits: bytes
				t.Errorf("took %d bytes", took)
			}
			if _, ok := errors.AsType[cannotAsk](err); ok == tt.fits || tt.fits != (err == nil) {
				t.Errorf("got %v", err)
			}
			if n := len(strings.Join(w.argv, "")); n > maxCommand || tt.fits && n != maxCommand {
				t.Errorf("has %d bytes", n)
			}
		})
	}
}

func TestValuesAreHidden(t *testing.T) {
	env := []string{"PASS=hunter2", "LONG=hunter2hunter2", "LINES=one\ntwo", "SHORT=abc", "OTHER=unused"}
	w, err := expandWords([]string{"$(PASS)", "$(LONG)$(LINES)", "$(SHORT) $$(PASS)"}, Target{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                   "",
		"hunter2 and hunter2hunter2":         "$(PASS) and $(LONG)",
		"exec: \"hunter2\": not found":       "exec: \"$(PASS)\": not found",
		fmt.Sprintf("%q failed", "one\ntwo"): "\"$(LINES)\" failed",
		"one\ntwo":                           "$(LINES)",
		"abc and unused":                     "abc and unused",
	} {
		if got := w.hide(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// FuzzExpand expands arbitrary words that refer to a value.
func FuzzExpand(f *testing.F) {
	for _, word := range []string{"", "$", "$$", "$(A)", "$$(A)", "$(A", "$(B)", "x$(A)y$(A)", "$($(A))", "$()"} {
		f.Add(word, "A", "value")
		f.Add(word, "", "$(A)")
	}
	f.Fuzz(func(t *testing.T, word, name, value string) {
		env := []string{name + "=" + value}
		w, err := expandWords([]string{word}, Target{Env: env})
		if err != nil {
			if len(word) <= maxCommand && len(value) == 0 {
				t.Errorf("%v", err)
			}
			return
		}
		got := w.argv[0]
		if len(got) > maxCommand {
			t.Errorf("%d bytes came out", len(got))
		}
		if !strings.Contains(word, "$") && got != word {
			t.Errorf("%q became %q", word, got)
		}
		if w.String() != word {
			t.Errorf("%q is shown as %q", word, w)
		}
		escaped, err := expandWords([]string{strings.ReplaceAll(word, "$", "$$")}, Target{Env: env})
		if err == nil && escaped.argv[0] != word {
			t.Errorf("%q came out of its escaped form as %q", word, escaped.argv[0])
		}
		if strings.ContainsAny(name, "=)") {
			return
		}
		whole, err := expandWords([]string{"$(" + name + ")"}, Target{Env: env})
		if err == nil && whole.argv[0] != value {
			t.Errorf("variable %q became %q, want %q", name, whole.argv[0], value)
		}
	})
}
