package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

const smaps = `00400000-01b2e000 r-xp 00000000 fe:01 131090                             /usr/bin/healthd
Size:              23736 kB
Rss:               16384 kB
Anonymous:             0 kB
01b2e000-0350f000 r--p 0172e000 fe:01 131090                             /usr/bin/healthd
Rss:                9000 kB
Anonymous:            12 kB
0350f000-035d0000 rw-p 0310f000 fe:01 131090                             /usr/bin/healthd
Anonymous:           400 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:          4096 kB
7f1000000000-7f1000010000 r--s 00000000 fe:01 42                         /var/lib/healthd/journal.db
Anonymous:             0 kB
`

// Only what is as in the file may go: the rest would be lost.
func TestReadOnlyMappings(t *testing.T) {
	want := []mapping{{0x400000, 0x172e000, false}, {0x1b2e000, 0x19e1000, true}}
	if got := readOnlyMappings(strings.NewReader(smaps), "/usr/bin/healthd"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := readOnlyMappings(strings.NewReader("Anonymous:\nnonsense\n-\n"), "/usr/bin/healthd"); got != nil {
		t.Errorf("got %+v of nonsense", got)
	}
}

// The program goes on from pages that were released.
func TestReleaseProgram(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := readOnlyMappings(file, program); len(got) == 0 {
		t.Fatal("the program is mapped nowhere")
	}
	releaseProgram()
	if got := strings.Repeat("still here ", 2); got != "still here still here " {
		t.Error(got)
	}
}
