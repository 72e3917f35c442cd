package main

import "testing"

func TestFirstLines(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"a\nb\nc\n", 3, "a\nb\nc\n"},
		{"a\nb\nc", 3, "a\nb\nc\n"},
		{"a\nb\nc\n", 2, "a\nb\n… and 1 lines more\n"},
		{"a\n\nb\nc\nd\n", 2, "a\n\n… and 3 lines more\n"},
	} {
		if got := firstLines(tt.text, tt.most); got != tt.want {
			t.Errorf("%q, %d: got %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}
