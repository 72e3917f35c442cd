package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryMap is struct prctl_mm_map.
type memoryMap struct {
	startCode, endCode, startData, endData, startBrk, brk, startStack uint64
	argStart, argEnd, envStart, envEnd                                uint64
	auxv                                                              uint64
	auxvSize                                                          uint32
	exe                                                               int32
}

// growEnvironment has /proc/PID/environ of this process show so many bytes, as any process may.
func growEnvironment(size int) error {
	area, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	// See proc(5), which counts from 1 and has two fields up to the name.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	field := func(n int) uint64 {
		value, parseErr := strconv.ParseUint(fields[n-3], 10, 64)
		if err == nil {
			err = parseErr
		}
		return value
	}
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	m := memoryMap{
		startCode: field(26), endCode: field(27), startData: field(45), endData: field(46), startBrk: field(47), brk: uint64(brk),
		startStack: field(28), argStart: field(48), argEnd: field(49), exe: -1,
	}
	m.envStart = uint64(uintptr(unsafe.Pointer(&area[0])))
	m.envEnd = m.envStart + uint64(size)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m), 0); err != nil {
		return fmt.Errorf("cannot set the environment: %w", err)
	}
	return nil
}
