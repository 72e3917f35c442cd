package files

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"healthd/supervisor"
)

// manyMembers is a host with 1,000 members in 50 services.
func manyMembers() *supervisor.Board {
	b := supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Synced: true}})
	for i := range 1000 {
		b.Show(member(fmt.Sprintf("project-%d/web", i%50), fmt.Sprintf("project-%d-web-%d", i%50, i/50), i, isReady))
	}
	return b
}

// BenchmarkRender1000 makes the content of a file with 1,000 members.
func BenchmarkRender1000(b *testing.B) {
	s := snapshotOf(manyMembers().Services(), everything, nil)
	for _, name := range shipped() {
		b.Run(name, func(b *testing.B) {
			tmpl := mustShip(b, name)
			size := 0
			b.ReportAllocs()
			for b.Loop() {
				size = len(mustRender(b, tmpl, s))
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// BenchmarkChange1000 is a change of one member of 1,000 until the file is written, without a reload.
func BenchmarkChange1000(b *testing.B) {
	board := manyMembers()
	p := New(Config{StateDir: b.TempDir()})
	if err := p.kept.load(); err != nil {
		b.Fatal(err)
	}
	f := newFile(p, board, &File{Path: b.TempDir() + "/file", Template: mustShip(b, "nginx"), Covers: everything, Timeout: time.Second})
	f.round(b.Context())
	b.ReportAllocs()
	before := cpuTime(b)
	for i := 0; b.Loop(); i++ {
		change := isReady
		if i%2 == 0 {
			change = nil
		}
		board.Show(member("project-0/web", "project-0-web-0", 0, change))
		if next := f.round(b.Context()); !next.IsZero() {
			b.Fatal("it was not written")
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is that of the whole process, with the collection of garbage.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLook1000 is a change of the board that changes nothing of the file: what each of 10 changes a second costs that
// min_interval holds up.
func BenchmarkLook1000(b *testing.B) {
	p := New(Config{})
	f := newFile(p, manyMembers(), &File{Path: b.TempDir() + "/file", Template: mustShip(b, "nginx"), Covers: everything, Timeout: time.Second})
	f.round(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		f.round(b.Context())
	}
}
