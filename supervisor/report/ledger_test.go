package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

// diary plays what a board shows to a ledger, and says what it counted.
type diary struct {
	t      *testing.T
	ledger *ledger
	wall   time.Time // when mono is 0
	mono   time.Duration
	counts [numCauses]int
}

// midday is far from the borders of hours and days.
var midday = time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)

func newDiary(t *testing.T, begin time.Time) *diary {
	return &diary{t: t, ledger: newLedger(), wall: begin}
}

// play plays lines: what passes, and then what the board shows.
//
//	10s web 1/2        one of two members is ready
//	10s web 1/1 for 3s the same, ready for 3 s; of 0/1: not ready for 3 s
//	10s web stopped    its only member was stopped
//	10s nothing        there is no container
//	10s unknown        the same, but not all containers are known yet
//	clock -1h          somebody sets the clock
//	daemon             a new daemon goes on with the ledger's file
//	restart liveness   counted from the next look on
//	found 3s           a probe found a failure in that time
func (d *diary) play(lines ...string) *diary {
	d.t.Helper()
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "clock":
			d.wall = d.wall.Add(d.duration(words[1]))
		case "daemon":
			d.ledger = reopened(d.t, d.ledger)
			d.wall, d.mono = d.wall.Add(d.mono), 0
		case "restart":
			for cause := range d.counts {
				if core.Cause(cause).String() == words[1] {
					d.counts[cause]++
				}
			}
		case "found":
			d.ledger.detected("web", d.duration(words[1]), d.wall.Add(d.mono))
		default:
			d.mono += d.duration(words[0])
			d.ledger.look(d.sight(words[1:]), moment{wall: d.wall.Add(d.mono), mono: d.mono})
		}
	}
	return d
}

func (d *diary) duration(text string) time.Duration {
	d.t.Helper()
	v, err := time.ParseDuration(text)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

func (d *diary) sight(words []string) *sight {
	if words[0] != "web" {
		return &sight{complete: words[0] == "nothing"}
	}
	f := fact{name: "web", project: "shop"}
	if words[1] == "stopped" {
		f.stopped = 1
	} else if _, err := fmt.Sscanf(words[1], "%d/%d", &f.ready, &f.members); err != nil {
		d.t.Fatal(err)
	}
	if len(words) > 3 {
		f.upFor, f.downFor = d.duration(words[3]), d.duration(words[3])
	}
	return &sight{complete: true, facts: []fact{f}, restarts: []restarts{{"c1", "web", d.counts}}}
}

// reopened returns what the next daemon reads of what this one has written.
func reopened(t testing.TB, l *ledger) *ledger {
	t.Helper()
	next, err := read(bytes.NewReader(written(t, l)))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func written(t testing.TB, l *ledger) []byte {
	t.Helper()
	k := &Keeper{ledger: l}
	var b bytes.Buffer
	if err := write(&b, head{version, l.began}, k.records(l.names())); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text writes a summary in short: what is zero is left out.
func text(s *Summary) string {
	var b strings.Builder
	for _, part := range []struct {
		name string
		d    time.Duration
	}{{"observed", s.Observed}, {"stopped", s.Stopped}, {"ready", s.Ready}} {
		if part.d != 0 {
			fmt.Fprintf(&b, " %s %v", part.name, part.d)
		}
	}
	if s.Capacity != s.Ready {
		fmt.Fprintf(&b, " capacity %v", s.Capacity)
	}
	if s.Outages > 0 || s.Longest > 0 {
		fmt.Fprintf(&b, " outages %d longest %v", s.Outages, s.Longest)
	}
	for cause, n := range s.Restarts {
		if n > 0 {
			fmt.Fprintf(&b, " %s %d", core.Cause(cause), n)
		}
	}
	if s.Detections > 0 {
		fmt.Fprintf(&b, " found %d in %v at most %v", s.Detections, s.Detected, s.Slowest)
	}
	return strings.TrimPrefix(b.String(), " ")
}

// all returns the whole of what is known of the service.
func (d *diary) all() string {
	now := d.wall.Add(d.mono)
	r := d.ledger.report(func(string) bool { return true }, now.Add(-7*24*time.Hour), now)
	if len(r.Services) == 0 {
		return "no service"
	}
	return text(&r.Services[0].Summary)
}

func TestTimeIsCounted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"ready all the time", []string{"1s web 1/1", "10s web 1/1", "20s web 1/1"}, "observed 30s ready 30s"},
		{"nothing before the first look", []string{"1h web 1/1"}, ""},
		{"never seen", []string{"1s nothing"}, "no service"},
		{"an outage, to the moment", []string{"1s web 1/1", "10s web 0/1 for 4s", "10s web 1/1 for 3s", "10s web 1/1"},
			"observed 30s ready 19s outages 1 longest 11s"},
		{"two outages", []string{"1s web 1/1", "1s web 0/1", "5s web 1/1", "1s web 0/1", "3s web 1/1"},
			"observed 10s ready 2s outages 2 longest 5s"},
		{"a change from before the look before counts from that look on", []string{"1s web 1/1", "10s web 0/1 for 1h", "10s web 1/1 for 1h"},
			"observed 20s ready 10s outages 1 longest 10s"},
		{"an outage that goes on", []string{"1s web 1/1", "10s web 0/1 for 0s", "30s web 0/1 for 30s"}, "observed 40s ready 10s outages 1 longest 30s"},
		{"half of the members", []string{"1s web 2/2", "10s web 1/2 for 0s", "10s web 1/2"}, "observed 20s ready 20s capacity 15s"},
		{"a third of them, in small steps", []string{"1s web 1/3", "10ms web 1/3", "10ms web 1/3", "10ms web 1/3"}, "observed 30ms ready 30ms capacity 10ms"},
		{"a start is not ready, and no outage", []string{"1s web 0/1", "20s web 1/1 for 5s", "10s web 1/1"}, "observed 30s ready 15s"},
		{"stopped by people is no outage", []string{"1s web 1/1", "10s web stopped for 4s", "30s web stopped", "10s web 0/1 for 10s", "10s web 1/1 for 5s"},
			"observed 16s stopped 44s ready 11s"},
		{"stopped in an outage ends it", []string{"1s web 1/1", "10s web 0/1 for 0s", "10s web stopped", "10s web 0/1", "10s web 0/1"},
			"observed 30s stopped 10s ready 10s outages 1 longest 10s"},
		{"removed and created anew", []string{"1s web 1/1", "10s nothing", "50s nothing", "10s web 0/1", "10s web 1/1 for 4s"}, "observed 20s ready 14s"},
		{"the daemon does not run for a while", []string{"1s web 1/1", "10s web 1/1", "daemon", "1h unknown", "1s web 1/1 for 1h", "10s web 1/1"},
			"observed 20s ready 20s"},
		{"an outage over a restart of the daemon is one", []string{"1s web 1/1", "10s web 0/1 for 5s", "daemon", "1s unknown", "1s web 0/1", "5s web 0/1", "5s web 1/1 for 0s"},
			"observed 20s ready 5s outages 1 longest 15s"},
		{"one that began meanwhile", []string{"1s web 1/1", "10s web 1/1", "daemon", "1s web 0/1 for 30s", "10s web 1/1 for 0s"},
			"observed 20s ready 10s outages 1 longest 10s"},
		{"the host sleeps", []string{"1s web 1/1", "8h web 1/1", "10s web 1/1"}, "observed 10s ready 10s"},
		{"times below a tick add up", []string{"1s web 1/1", "4ms web 1/1", "4ms web 1/1", "4ms web 1/1", "8ms web 1/1"}, "observed 20ms ready 20ms"},
		{"the clock is set forward", []string{"1s web 1/1", "10s web 1/1", "clock 2h", "10s web 0/1 for 5s", "10s web 0/1"},
			"observed 30s ready 15s outages 1 longest 15s"},
		{"the clock is set back", []string{"1s web 1/1", "10s web 1/1", "clock -2h", "10s web 0/1 for 5s", "clock 2h", "10s web 1/1 for 0s"},
			"observed 30s ready 15s outages 1 longest 15s"},
		{"the clock was wrong for a year", []string{"clock 8760h", "1s web 1/1", "10s web 1/1", "clock -8760h", "10s web 1/1"}, "observed 10s ready 10s"},
		{"restarts, from the first look on", []string{"restart liveness", "1s web 1/1", "restart liveness", "restart exit", "restart exit", "10s web 1/1", "10s web 1/1"},
			"observed 20s ready 20s liveness 1 exit 2"},
		{"restarts while there is no daemon are not counted", []string{"1s web 1/1", "restart exit", "daemon", "1s web 1/1", "restart operator", "10s web 1/1"},
			"observed 10s ready 10s operator 1"},
		{"detections", []string{"1s web 1/1", "found 3s", "found 21s", "found 1ms", "1s web 1/1"},
			"observed 1s ready 1s found 3 in 24s at most 21s"},
		{"a detection of a service that nobody knows", []string{"found 3s"}, "no service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newDiary(t, midday).play(tt.lines...).all(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What the metrics count is what the report does, since the start of the daemon.
func TestTotalsAreThoseOfTheReport(t *testing.T) {
	d := newDiary(t, midday).play("1s web 1/1", "10s web 0/2 for 4s", "restart exit", "found 3s", "10s web 1/2", "10s web stopped", "10s web stopped")
	if got := text(&d.ledger.services["web"].total); got != d.all() || got == "" {
		t.Errorf("the total is %s, the report %s", got, d.all())
	}
	d.play("daemon", "1s web 1/1", "5s web 1/1")
	if got := text(&d.ledger.services["web"].total); got != "observed 5s ready 5s" {
		t.Errorf("after a restart the total is %s", got)
	}
}

// A time that crosses the end of an hour or day is divided.
func TestBordersOfHoursAndDays(t *testing.T) {
	d := newDiary(t, time.Date(2026, 3, 4, 22, 59, 49, 0, time.UTC))
	d.play("1s web 1/1", "15s web 1/1") // 22:59:50 to 23:00:05
	for range 72 {
		d.play("51s web 0/1 for 51s")
	}
	d.play("5s web 1/1 for 0s", "10s web 1/1")
	var got strings.Builder
	dump := func(all shelf, name func(int32) time.Time) {
		for i := range all {
			var s Summary
			s.add(&all[i])
			fmt.Fprintf(&got, "%s %s\n", name(all[i].at).Format("02 15:04"), text(&s))
		}
	}
	s := d.ledger.services["web"]
	dump(s.hours, startOfHour)
	dump(s.days, startOfDay)
	const want = `04 22:00 observed 10s ready 10s
04 23:00 observed 1h0m0s ready 5s outages 1 longest 59m55s
05 00:00 observed 1m32s ready 10s outages 0 longest 1h1m17s
04 00:00 observed 1h0m10s ready 15s outages 1 longest 59m55s
05 00:00 observed 1m32s ready 10s outages 0 longest 1h1m17s
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// A report by the hour begins with the hour of its since, one by the day with the day.
func TestRangeOfAReport(t *testing.T) {
	d := newDiary(t, midday.Add(-20*24*time.Hour))
	d.play("1s web 1/1")
	for range 20 * 24 * 60 {
		d.play("1m web 1/1")
	}
	for _, tt := range []struct {
		since time.Duration
		from  string
		want  string
		days  int
	}{
		{time.Hour, "03-04 11:00", "observed 1h30m1s", 1},
		{24 * time.Hour, "03-03 12:00", "observed 24h30m1s", 2},
		{7 * 24 * time.Hour, "02-25 12:00", "observed 168h30m1s", 8},
		{10 * 24 * time.Hour, "02-22 00:00", "observed 252h30m1s", 11},
		{90 * 24 * time.Hour, "2025-12-04 00:00", "observed 480h0m0s", 21},
	} {
		now := d.wall.Add(d.mono)
		r := d.ledger.report(func(string) bool { return true }, now.Add(-tt.since), now)
		s := r.Services[0]
		if got, _, _ := strings.Cut(text(&s.Summary), " ready"); !strings.HasSuffix(r.From.Format("2006-01-02 15:04"), tt.from) || got != tt.want || len(s.Days) != tt.days {
			t.Errorf("%v: from %s, %s in %d days, want %s, %s in %d", tt.since, r.From, got, len(s.Days), tt.from, tt.want, tt.days)
		}
		var sum Summary
		for _, day := range s.Days {
			sum.Observed += day.Observed
		}
		if sum.Observed != s.Observed {
			t.Errorf("%v: the days have %v, all %v", tt.since, sum.Observed, s.Observed)
		}
	}
}

// However the clocks go, no time is negative, and no more is counted than has passed.
func TestClocksGoWild(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	d, passed := newDiary(t, midday), time.Duration(0)
	for range 20_000 {
		step := time.Duration(random.Int64N(int64(20 * time.Second)))
		if random.IntN(20) == 0 {
			d.wall = d.wall.Add(time.Duration(random.Int64N(int64(2000*time.Hour))) - 1000*time.Hour)
		}
		passed += step
		ready := random.IntN(3)
		d.mono += step
		f := fact{name: "web", ready: ready, members: 2, upFor: time.Duration(random.Int64N(1e11)) - 5e10, downFor: time.Duration(random.Int64N(1e11)) - 5e10}
		d.ledger.look(&sight{facts: []fact{f}, complete: true}, moment{wall: d.wall.Add(d.mono), mono: d.mono})
	}
	s := d.ledger.services["web"]
	if s.total.Observed > passed || s.total.Observed < passed-30*time.Second || s.total.Ready > s.total.Observed || s.total.Capacity > s.total.Ready {
		t.Errorf("of %v: %s", passed, text(&s.total))
	}
	for _, all := range []shelf{s.hours, s.days} {
		for i := range all {
			if b := &all[i]; b.ready > b.observed || b.capacity > b.ready || b.observed == 0 {
				t.Errorf("%+v", b)
			}
		}
		if !slices.IsSortedFunc(all, func(a, b bucket) int { return int(a.at) - int(b.at) }) || len(all) > maxHours {
			t.Errorf("%d buckets, or out of order", len(all))
		}
	}
}

// The ledger is bounded, however many services come and go.
func TestBoundOfServices(t *testing.T) {
	l, now := newLedger(), moment{wall: midday}
	look := func(pass time.Duration, first, n int) {
		now.wall, now.mono = now.wall.Add(pass), now.mono+pass
		seen := &sight{complete: true}
		for i := range n {
			seen.facts = append(seen.facts, fact{name: fmt.Sprint("s", first+i), ready: 1, members: 1})
		}
		l.look(seen, now)
	}
	look(0, 0, maxServices+5)
	if len(l.services) != maxServices || l.omitted != 5 {
		t.Errorf("%d services, %d omitted", len(l.services), l.omitted)
	}
	look(time.Second, 0, 10) // the others are gone
	look(time.Second, maxServices, 10)
	if len(l.services) != maxServices || l.omitted != 0 || l.services["s5"] == nil && l.services["s500"] == nil {
		t.Errorf("%d services, %d omitted, when others make room", len(l.services), l.omitted)
	}
	look(maxDays*24*time.Hour-time.Minute, maxServices, 10)
	if len(l.services) != maxServices {
		t.Errorf("%d services before 90 days", len(l.services))
	}
	look(2*time.Minute, maxServices, 10)
	if len(l.services) != 10 {
		t.Errorf("%d services after 90 days", len(l.services))
	}
}

// The documented sizes hold, of a ledger that is as large as it gets with a tenth of the services. Each bucket has
// incidents here.
func TestSizes(t *testing.T) {
	const part = 10
	l := fullLedger(maxServices / part)
	file := written(t, l)
	again, err := read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := written(t, again); !bytes.Equal(got, file) {
		t.Error("what was read is not what was written")
	}
	if most := 9_000_000 / part; len(file) > most {
		t.Errorf("the file has %d bytes, at most %d are documented", len(file), most)
	}
	before := heap()
	third, err := read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	took := int64(heap()) - int64(before)
	t.Logf("%d services: %d bytes in the file, %d in memory", len(third.services), len(file), took)
	if most := int64(16_000_000 / part); took > most { // waits: bytes
		t.Errorf("the ledger takes %d bytes, at most %d are documented", took, most)
	}
	runtime.KeepAlive(third)
}

// at fills the buckets of a moment with numbers that do not repeat.
func (s *service) at(at time.Time, seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(at.Unix())))
	n := func() uint32 { return uint32(random.IntN(360_000)) }
	s.change(at, func(b *bucket) {
		b.observed, b.ready, b.capacity = n(), n(), n()
		b.incidents = &incidents{outages: n() % 10, longest: n(), detections: n() % 10, detected: n(), slowestFind: n()}
		b.incidents.restarts[core.ByLiveness], b.incidents.restarts[core.ByExit] = n()%10, n()%10
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fullLedger returns a ledger that has so many services and is as large as it gets with them.
func fullLedger(services int) *ledger {
	l := newLedger()
	for i := range services {
		s := &service{name: fmt.Sprintf("project-%d/service", i), seen: midday}
		for h := range maxHours {
			s.at(midday.Add(time.Duration(h)*time.Hour), i)
		}
		for day := range maxDays {
			s.at(midday.Add(time.Duration(day-maxDays)*24*time.Hour), i)
		}
		l.services[s.name] = s
	}
	return l
}

// What a write costs, and a read: of 100 services that were well for 90 days.
func BenchmarkFile(b *testing.B) {
	l := fullLedger(100)
	for _, s := range l.services {
		for i := range s.hours {
			s.hours[i] = bucket{s.hours[i].at, 360_000, 0, 360_000, 360_000, nil}
		}
		for i := range s.days {
			s.days[i] = bucket{s.days[i].at, 8_640_000, 0, 8_640_000, 8_640_000, nil}
		}
	}
	file := written(b, l)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			written(b, l)
		}
		b.ReportMetric(float64(len(file)), "bytes")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			reopened(b, l)
		}
	})
}
