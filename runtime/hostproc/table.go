package hostproc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxCommandLine bounds what is read of a process's arguments, in bytes: it chooses them itself.
const maxCommandLine = 1 << 10

// Titles are those of the cells of Row.
func Titles() []string {
	return []string{"PID", "PPID", "STAT", "RSS", "TIME", "WCHAN", "COMMAND"}
}

// Row describes a process for people as ps does: RSS is in KiB, TIME is its CPU time, WCHAN is where
// in the kernel it waits, for those who may know. It is nil for a process that has ended.
func Row(pid int) []string {
	stat, err := readFile(fmt.Sprintf("/proc/%d/stat", pid), maxStat)
	if err != nil {
		return nil
	}
	p, err := parseStat(pid, stat)
	if err != nil {
		return nil
	}
	name, fields := statFields(stat)
	wchan, err := readFile(fmt.Sprintf("/proc/%d/wchan", pid), maxStat)
	if err != nil || len(wchan) == 0 || string(wchan) == "0" {
		wchan = []byte("-")
	}
	command := strings.TrimSpace(strings.ReplaceAll(CommandLine(pid, maxCommandLine), "\x00", " "))
	if command == "" { // of a zombie and a kernel thread
		command = "[" + name + "]"
	}
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	return []string{
		strconv.Itoa(p.PID), strconv.Itoa(p.PPID), string(p.State), strconv.FormatInt(pages*int64(os.Getpagesize())/1024, 10),
		cpuTime(fields), string(wchan), command,
	}
}

// statFields returns the name of a process, and what follows it in /proc/PID/stat, which parseStat
// has found to be complete up to the start time.
func statFields(stat []byte) (name string, fields []string) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open >= 0 && open < end {
		name = string(stat[open+1 : end])
	}
	fields = strings.Fields(string(stat[end+1:]))
	for len(fields) < 22 {
		fields = append(fields, "0")
	}
	return name, fields
}

// cpuTime returns the CPU time of a process as ps does.
func cpuTime(fields []string) string {
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	d := time.Duration(user+system) * Tick
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// CommandLine returns the first bytes of a process's arguments, each ended by a zero byte; empty: they cannot be read.
func CommandLine(pid, most int) string {
	text, _ := fromMemory(fmt.Sprintf("/proc/%d/cmdline", pid), func(r io.Reader) string {
		b, _ := io.ReadAll(io.LimitReader(r, int64(most)))
		return string(b)
	})
	return text
}
