package prober

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// allocatedBy returns how many bytes f has allocated, at least.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMask(t *testing.T) {
	long := strings.Repeat("N", 200)
	for _, tt := range []struct {
		name      string
		names     map[string]string
		text      string
		most      int
		want, cut string
	}{
		{"nothing to hide", nil, "text", 10, "text", "text"},
		{"at the bound", nil, "text", 2, "te", "te"},
		{"no room", map[string]string{"text": "A"}, "text", 0, "", ""},
		{"a value", map[string]string{"text": "A"}, "a text", 10, "a $(A)", "a "},
		{"cut in a name", map[string]string{"text": "NAME"}, "a text", 5, "a $(N", "a $(N"},
		{"names are values of others", map[string]string{"text": "NAME", "NAME": "text", "$(NAME)": "C"}, "text NAME $(NAME)", 99, "$(NAME) $(text) $(C)", "$(NAME) $(tex"},
		{"long values first", map[string]string{"four": "A", "four-five": "B"}, "four-five four", 99, "$(B) $(A)", ""},
		{"a short value", map[string]string{"abc": "A"}, "abc", 99, "abc", "abc"},
		{"a long name", map[string]string{"text": long}, "text", 99, "$(" + long[:maxMaskName] + "…)", "$(" + long[:maxMaskName]},
		{"half a value at the end", map[string]string{"secret": "A"}, "secretsecretsec", 99, "$(A)$(A)sec", "$(A)$"},
	} {
		m := NewMask(tt.names, false)
		if got := m.Text(tt.text, tt.most); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := m.CutText(tt.text, tt.most); got != tt.cut {
			t.Errorf("%s, cut: got %q, want %q", tt.name, got, tt.cut)
		}
	}
}

// Of an environment that is not known as a whole nothing can be hidden, and no command runs with a part of a value.
func TestClippedEnvironment(t *testing.T) {
	if got := NewMask(map[string]string{"text": "A"}, true).Text("secret", 999); !strings.HasPrefix(got, "(left out") {
		t.Errorf("got %q", got)
	}
	target := Target{Runtime: "fake", ID: "c1", Env: []string{"A=text"}, EnvClipped: true}
	config := Config{Engines: map[string]Engine{"fake": limitedEngine{[]byte("said")}}}
	r := mustProbe(t, config, execs("a", "$(A)"), target).Ask(t.Context(), longTimeout)
	wantResult(t, r, Unknown, NotAsked)
	wantOutput(t, r, "larger than healthd reads")
	r = mustProbe(t, config, execs("a", "$A"), target).Ask(t.Context(), longTimeout)
	wantResult(t, r, Success, "")
	wantOutput(t, r, "said")
}

// A container has a variable with an endless name, and prints its short value without an end; or so many values that
// what finds them is large.
func TestMaskIsBounded(t *testing.T) {
	text := strings.Repeat("aaaa", 64<<10)
	nested, branching := map[string]string{}, map[string]string{}
	for i := range maxMasked {
		nested[strings.Repeat("a", minMasked+i)] = strings.Repeat("a", 4<<10)
	}
	for i := range 100 * maxMasked {
		branching[fmt.Sprintf("%06d", i)] = "A"
	}
	for name, names := range map[string]map[string]string{
		"a long name":              {"aaaa": strings.Repeat("a", 1<<20)},
		"a name that is its value": {"aaaa": "aaaa"},
		"values in values":         nested,
		"too many values":          branching,
		"too long a value":         {strings.Repeat("a", longestMasked+1): "A", "aaaa": strings.Repeat("a", 4<<10)},
	} {
		for _, most := range []int{0, 1, 10, MaxOutput, 10 * MaxOutput} {
			for what, hide := range map[string]func(Mask) string{
				"whole": func(m Mask) string { return m.Text(text, most) },
				"cut":   func(m Mask) string { return m.CutText(text, most) },
			} {
				var got string
				allocated := allocatedBy(func() { got = hide(NewMask(names, false)) })
				if len(got) > most || strings.HasPrefix(got, "aaaa") || allocated > 16<<20 {
					t.Errorf("%s, %s: %d of %d bytes, %d allocated: %.30q", name, what, len(got), most, allocated, got)
				}
			}
		}
	}
}

// What a command prints may consist of values that are longer than their names: then half a value at its end comes into
// sight.
func TestNoHalfValueIsShown(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	for shift := range len(secret) {
		printed := strings.Repeat("x", shift) + strings.Repeat(secret, 2*MaxOutput/len(secret))
		e := limitedEngine{[]byte(printed)}
		target := Target{Runtime: "fake", ID: "c1", Env: []string{"A=" + secret}}
		r := mustProbe(t, Config{Engines: map[string]Engine{"fake": e}}, execs("login", "$(A)"), target).Ask(t.Context(), longTimeout)
		if strings.Contains(r.Output, "c") || !strings.Contains(r.Output, "$(A)$(A)") {
			t.Errorf("shifted by %d, the output ends in %q", shift, r.Output[max(0, len(r.Output)-40):])
		}
	}
}

// Five containers had a command with a name of 3.9 kB, a short value and much output: each took 127 MB to hide that.
func TestNamesOfCommandsThatFlood(t *testing.T) {
	name := strings.Repeat("N", 3900)
	flood := []byte(strings.Repeat("aaaa", 64<<10))
	for _, value := range []string{strings.Repeat("b", 120_000), strings.Repeat("b", longestMasked), "bbbb", strings.Repeat("\x00", 1000)} {
		e := limitedEngine{flood}
		target := Target{Runtime: "fake", ID: "c1", Env: []string{name + "=aaaa", "V=" + value}}
		var r Result
		allocated := allocatedBy(func() {
			p := New(Config{Engines: map[string]Engine{"fake": e}})
			probe, err := p.Probe(execs("true", "$("+name+")$(V)"), target)
			if err != nil {
				t.Fatal(err)
			}
			defer probe.Close()
			r = probe.Ask(t.Context(), longTimeout)
		})
		if r.Outcome != Success || len(r.Output) > MaxOutput || strings.Contains(r.Output, "aaaa") || allocated > 4<<20 {
			t.Errorf("with a value of %d bytes: %v, %d bytes of output, %d allocated: %.100q", len(value), r.Outcome, len(r.Output), allocated, r.Output)
		}
	}
}

// limitedEngine is an engine whose commands print that, of which it returns what it may.
type limitedEngine struct{ output []byte }

func (e limitedEngine) Exec(_ context.Context, _ string, _ []string, _ time.Duration, limit int, started func()) (output []byte, code int, timedOut bool, err error) {
	started()
	return e.output[:min(limit, len(e.output))], 0, false, nil
}

func (e limitedEngine) Health(context.Context, string) (status, output string, err error) {
	return "none", "", nil
}
