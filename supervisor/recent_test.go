package supervisor

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"healthd/prober"
)

// told writes results as "s:output" of their outcome's first letter, "~" for an output that was dropped.
func told(all []RecentResult) string {
	var b strings.Builder
	for i, r := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ToLower(r.Outcome.String()[:1]))
		switch {
		case r.Dropped:
			b.WriteString(":~")
		case r.Output != "":
			b.WriteString(":" + r.Output)
		}
	}
	return b.String()
}

func TestRecentResults(t *testing.T) {
	good := prober.Result{Outcome: prober.Success}
	bad := func(output string) prober.Result {
		return prober.Result{Outcome: prober.Failure, Cause: prober.Status, Output: output}
	}
	repeat := func(n int, r prober.Result) (all []prober.Result) {
		for range n {
			all = append(all, r)
		}
		return all
	}
	long := strings.Repeat("x", 900)
	for _, tt := range []struct {
		name string
		add  []prober.Result
		want string
	}{
		{"none", nil, ""},
		{"a few", []prober.Result{good, bad("500"), {Cause: prober.NotAsked, Output: "?"}}, "s f:500 u:?"},
		{"more than fit", append(repeat(30, good), bad("a"), bad("b")), strings.Repeat("s ", 18) + "f:a f:b"},
		{"the same text is kept once", append(repeat(30, bad("a")), bad("b"), bad("a")), strings.Repeat("f:a ", 18) + "f:b f:a"},
		{"many texts", []prober.Result{bad("1"), bad("2"), bad("3"), bad("1"), bad("4"), bad("5"), bad("6")}, "f:1 f:~ f:~ f:1 f:4 f:5 f:6"},
		{"much text", []prober.Result{bad("1"), bad(long + "2"), bad(long + "3")}, "f:~ f:~ f:" + long + "3"},
		{"too much text", []prober.Result{bad("1"), bad(strings.Repeat("é", 5000))}, "f:1 f:" + strings.Repeat("é", 510)},
		{"text of successes", []prober.Result{bad("1"), {Outcome: prober.Success, Output: long}}, "f:1 s:" + long[:253] + "…"},
		{"text that is in no result any more", append([]prober.Result{bad("1")}, append(repeat(25, good), bad("2"), bad("3"), bad("4"), bad("5"))...),
			strings.Repeat("s ", 16) + "f:2 f:3 f:4 f:5"},
	} {
		var r recentResults
		for i := range tt.add {
			r.add(&tt.add[i], time.Unix(int64(i), 0))
		}
		all := r.all()
		if got := told(all); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
		for i, result := range all {
			if want := time.Unix(int64(len(tt.add)-len(all)+i), 0); !result.At.Equal(want) {
				t.Errorf("%s: result %d is of %v, want %v", tt.name, i, result.At, want)
			}
		}
	}
}

// What is packed comes out again, of all causes and of latencies that do not fit, too.
func TestRecentResultIsPacked(t *testing.T) {
	for _, cause := range recentCauses {
		for latency, want := range map[time.Duration]time.Duration{0: 0, 1500 * time.Microsecond: 1500 * time.Microsecond, 30 * time.Hour: (1<<32 - 1) * time.Microsecond, -1: 0} {
			r := prober.Result{Outcome: prober.Failure, Cause: cause, Warning: cause == prober.Warned, Latency: latency}
			var kept recentResults
			kept.add(&r, time.Unix(1, 2))
			got := kept.all()[0]
			if got != (RecentResult{At: time.Unix(1, 2), Outcome: r.Outcome, Cause: cause, Warning: r.Warning, Latency: want}) {
				t.Errorf("%+v became %+v", r, got)
			}
		}
	}
}

// Readers see whole results, whatever the loop adds meanwhile.
func TestRecentResultsAreReadMeanwhile(t *testing.T) {
	var r recentResults
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				last := time.Duration(-1)
				for _, result := range r.all() {
					if want := fmt.Sprint(result.Latency.Microseconds() % 7); result.Output != want && !result.Dropped || result.Latency <= last {
						t.Errorf("got %+v after %v", result, last)
						return
					}
					last = result.Latency
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for i := range 20_000 {
		r.add(&prober.Result{Latency: time.Duration(i) * time.Microsecond, Output: fmt.Sprint(i % 7)}, time.Now())
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
}

// docs/performance.md says so.
func TestRecentResultsAreSmall(t *testing.T) {
	const most = 384 // the size class of Go's heap
	if got := unsafe.Sizeof(recentResults{}); got > most {
		t.Errorf("the newest results of a probe take %d bytes, want at most %d", got, most)
	}
}

func BenchmarkRecentResults(b *testing.B) {
	b.ReportAllocs()
	var r recentResults
	results := []prober.Result{{Outcome: prober.Success}, {Outcome: prober.Failure, Output: "HTTP probe failed with statuscode: 500"}}
	now := time.Now()
	for i := 0; b.Loop(); i++ {
		r.add(&results[i/5%2], now)
	}
}
