package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

const (
	// clientRole makes the test binary what asks in the benchmarks, so that the CPU
	// time of this process is that of the answers alone.
	clientRole = "AGENT_TEST_CLIENT"
	// containers are as many as the board of the benchmarks has, c0 and following.
	containers = 1000
)

func TestMain(m *testing.M) {
	if address := os.Getenv(clientRole); address != "" {
		if err := runClient(address, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "the client of the benchmark:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runClient reads a number of checks and how many run at once, does them and writes "done",
// until the end of in.
func runClient(address string, in io.Reader, out io.Writer) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	to := &syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	for {
		var asks, atOnce int
		if _, err := fmt.Fscanln(in, &asks, &atOnce); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := askMany(to, int64(asks), atOnce); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "done"); err != nil {
			return err
		}
	}
}

func askMany(to *syscall.SockaddrInet4, asks int64, atOnce int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, atOnce)
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1); i <= asks; i = next.Add(1) {
				if err := askRaw(to, fmt.Sprintf("web/c%d\n", i%containers)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// askRaw sends a check as HAProxy does, with plain system calls: on few cores the benchmark
// would otherwise measure the client.
func askRaw(to *syscall.SockaddrInet4, send string) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, to); err != nil {
		return err
	}
	if _, err := syscall.Write(fd, []byte(send)); err != nil {
		return err
	}
	var buf [128]byte
	for n := 0; ; {
		k, err := syscall.Read(fd, buf[n:])
		switch {
		case err != nil:
			return err
		case k > 0:
			n += k
		case string(buf[:n]) != up:
			return fmt.Errorf("%q was answered with %q", send, buf[:n])
		default:
			return nil
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchAnswer(b *testing.B, atOnce int) {
	views := make([]*core.View, containers)
	for i := range views {
		views[i] = view(fmt.Sprintf("c%d", i), func(v *core.View) { v.State.Conditions.Ready.Status = true })
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clientRole+"="+startWith(b, supervisor.NewBoard(nil, views...)))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	done := bufio.NewReader(out)
	tell := func(asks int) {
		if _, err := fmt.Fprintln(in, asks, atOnce); err != nil {
			b.Fatal(err)
		}
		if _, err := done.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	tell(atOnce) // the client has started, and there are threads enough
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	tell(b.N)
	spent := cpuTime(b) - before
	b.StopTimer()
	b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(b.N), "cpu-µs/answer")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}

func BenchmarkAnswer(b *testing.B)     { benchAnswer(b, 1) }
func BenchmarkAnswerMany(b *testing.B) { benchAnswer(b, 16) }
