package pagetest

import "testing"

func TestCompare(t *testing.T) {
	const output = "NAME   SINCE\nweb-1  12s\nnote\nat 2026-01-02 03:04:05 from 10.1.2.3\n"
	for _, tt := range []struct {
		page string
		same bool
	}{
		{"NAME SINCE\nweb-1  1m\nnote\nat 2027-11-12 13:14:15 from 172.18.0.2\n", true},
		{"NAME SINCE\n…\nnote\n…\n", true},
		{"…\nat 2027-11-12 13:14:15 from 172.18.0.2\n", true},
		{"NAME SINCE\n", false},
		{"note\n…\n", false},
		{"…\nnote\n", false},
		{"NAME SINCE\nweb-2  1m\n…\n", false},
		{"…\nnote\n…\nNAME SINCE\n…\n", false},
		{"", false},
	} {
		if err := Compare(tt.page, output); (err == nil) != tt.same {
			t.Errorf("%q: %v", tt.page, err)
		}
	}
}
