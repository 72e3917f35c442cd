package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mapping is a part of the memory of a process that is a view of a file.
type mapping struct {
	start, length uintptr
	changed       bool // some of it is no longer as in the file
}

// releaseProgram tells the kernel that what is in memory of healthd's own program need not stay there: the start
// reads much of it that is not needed again. What is needed comes from the kernel's cache or the file. An error
// would only mean that it stays.
func releaseProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer file.Close()
	for _, m := range readOnlyMappings(file, program) {
		if !m.changed {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.length, unix.MADV_DONTNEED)
		}
	}
}

// readOnlyMappings returns the mappings of a file that the process may not write to, from /proc/PID/smaps.
func readOnlyMappings(smaps io.Reader, file string) []mapping {
	var all []mapping
	ours := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		var start, end uintptr
		var access, offset, device, inode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s", &start, &end, &access, &offset, &device, &inode); n == 6 {
			ours = strings.HasSuffix(lines.Text(), " "+file) && len(access) == 4 && access[1] == '-'
			if ours {
				all = append(all, mapping{start: start, length: end - start})
			}
			continue
		}
		key, value, _ := strings.Cut(lines.Text(), ":")
		if ours && key == "Anonymous" && strings.TrimSpace(value) != "0 kB" {
			all[len(all)-1].changed = true
		}
	}
	return all
}
