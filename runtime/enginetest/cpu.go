package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CPU is the CPU time that processes have used, in user and system mode.
type CPU struct {
	Own    time.Duration // of this process
	Engine time.Duration // of the engine, its shims, and what they started and saw end
}

// CPUOf returns what has been used so far, here and by the engine of the endpoint.
func CPUOf(endpoint string) CPU {
	return CPU{Own: ownCPU(), Engine: engineCPU(filepath.Dir(strings.TrimPrefix(endpoint, "unix://")))}
}

// ReportCPU has a benchmark report the CPU time of each of n operations since it was called:
// client-ms is that of this process, all-ms also that of the engine of the endpoint.
func ReportCPU(b *testing.B, endpoint string) (report func(n int)) {
	before := CPUOf(endpoint)
	return func(n int) {
		after := CPUOf(endpoint)
		own, engine := after.Own-before.Own, after.Engine-before.Engine
		b.ReportMetric(float64(own.Microseconds())/1e3/float64(n), "client-ms")
		b.ReportMetric(float64((own+engine).Microseconds())/1e3/float64(n), "all-ms")
	}
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// engineCPU is that of all processes whose command line names something in the engine's directory.
func engineCPU(dir string) time.Duration {
	var sum time.Duration
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if args, _ := os.ReadFile(file); strings.Contains(string(args), dir+"/") {
			sum += processCPU(filepath.Dir(file))
		}
	}
	return sum
}

// processCPU is that of a process and of its children that have ended.
func processCPU(proc string) time.Duration {
	b, _ := os.ReadFile(filepath.Join(proc, "stat"))
	var ticks [4]int64
	if f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])); len(f) > 14 {
		for i := range ticks {
			_, _ = fmt.Sscan(f[11+i], &ticks[i])
		}
	}
	return time.Duration(ticks[0]+ticks[1]+ticks[2]+ticks[3]) * 10 * time.Millisecond
}
