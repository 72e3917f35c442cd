package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/api"
)

const reportSpec = `
[[spec]]
name = "report"
match = { e2e = "report" }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/dev/shm/hangs"] }
period = "300ms"
timeout = "30s"
failure_threshold = 2
termination_grace_period = "3s"
[spec.readiness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "300ms"
timeout = "30s"
failure_threshold = 2
[spec.backoff]
initial = "3s"

[[spec]]
name = "well"
match = { e2e = "well" }
`

// Between two looks of the report lies a second. probeTimeout is that of the spec.
const (
	betweenLooks = time.Second
	probeTimeout = 30 * time.Second
)

// between is a time that is known to be in these bounds.
type between struct{ least, most time.Duration }

func (b *between) add(o between) { b.least, b.most = b.least+o.least, b.most+o.most }

func (b between) check(t *testing.T, what string, seconds float64) {
	t.Helper()
	// The report counts in hundredths of a second, and each look may leave one to the next.
	const slack = 100 * time.Millisecond
	if got := time.Duration(seconds * float64(time.Second)); got < b.least-slack || got > b.most+slack {
		t.Errorf("%s is %v, want %v to %v", what, got, b.least, b.most)
	}
}

// instant is a moment that lies between two that the test has seen.
type instant struct{ notBefore, notAfter time.Time }

func (i instant) until(o instant) between {
	return between{max(0, o.notBefore.Sub(i.notAfter)), o.notAfter.Sub(i.notBefore)}
}

// reported is what really happens to the service while its report is kept.
type reported struct {
	t  *testing.T
	e  harness.Engine
	d  *harness.Daemon
	id string

	began, changed instant // of the service, and of its readiness
	ready          between // not counting since changed
	longest        between
	found          between // how long probes took, in all
	outages        int
}

// becomes does what makes the container ready, or takes that from it, and notes when that was.
func (r *reported) becomes(wanted bool, act func()) {
	r.t.Helper()
	at := instant{notBefore: time.Now()}
	act()
	r.d.Until("shop-web-1", fmt.Sprintf("ready: %v", wanted), func(s harness.Status) bool { return s.Ready == wanted })
	at.notAfter = time.Now()
	span := r.changed.until(at)
	switch {
	case !wanted:
		r.ready.add(span)
		r.outages++
	case r.outages > 0:
		r.longest = between{max(r.longest.least, span.least), max(r.longest.most, span.most)}
	}
	r.changed = at
	if wanted {
		r.d.Stays(2*betweenLooks, "shop-web-1", "ready", harness.Ready) // what is over sooner may be missed
	}
}

// probed is becomes of what a probe finds.
func (r *reported) probed(act func()) {
	r.t.Helper()
	r.becomes(false, act)
	took := r.changed.notAfter.Sub(r.changed.notBefore)
	r.found.add(between{300 * time.Millisecond * 9 / 10, took + probeTimeout}) // the first failed one may have begun before
}

func (r *reported) exec(argv ...string) {
	r.t.Helper()
	if code := r.e.Exec(r.t, r.id, argv...); code != 0 {
		r.t.Fatalf("%v: exit code %d", argv, code)
	}
}

// A service loses its readiness, is restarted by its liveness probe and crashes; another one is always well. Whoever
// asks for the report gets the same, and what has really happened. A restart of healthd changes nothing of it. A kill
// may lose what came since the last write, and the time without a healthd counts for nothing.
func reportOfServices(t *testing.T, e harness.Engine) {
	r := &reported{t: t, e: e, d: harness.StartDaemonOn(t, e, reportSpec)}
	run := func(spec, service string) string {
		return e.Run(t, dockertest.RunOptions{
			Name: "shop-" + service + "-1", Cmd: []string{"sleep", "4242"},
			Labels: map[string]string{"e2e": spec, "com.docker.compose.project": "shop", "com.docker.compose.service": service, "com.docker.compose.container-number": "1"},
		})
	}
	r.becomes(true, func() { r.id = run("report", "web") })
	r.began = r.changed
	run("well", "db") // ready as soon as it runs
	r.d.Until("shop-db-1", "ready", harness.Ready)

	r.probed(func() { r.exec("touch", "/sick") })
	r.d.Stays(2*betweenLooks, "shop-web-1", "not ready", func(s harness.Status) bool { return !s.Ready })
	r.becomes(true, func() { r.exec("rm", "/sick") })
	r.probed(func() { r.exec("touch", "/dev/shm/hangs") })
	r.becomes(true, func() {}) // healthd restarts it
	r.becomes(false, func() { r.d.EndProcess(e, r.id) })
	r.becomes(true, func() {})
	want := api.ReportPeriod{Outages: 3, Restarts: map[string]int{"liveness": 1, "exit": 1}, Detections: 2}
	asked := time.Now()
	total := r.settled(want).Total
	r.check(total, asked)
	r.everywhere(want)
	before, got, after := r.settled(want).Total, r.metrics(), r.settled(want).Total
	r.checkCounters(got, want)
	checkTimes(t, got, before, after)

	if err := r.d.Stop(); err != nil {
		t.Fatal(err)
	}
	r.d.Restart()
	r.d.Until("shop-web-1", "ready", harness.Ready)
	again := r.settled(want).Total
	if again.LongestOutageSeconds != total.LongestOutageSeconds || again.DetectionMaxSeconds != total.DetectionMaxSeconds || again.DetectionSumSeconds != total.DetectionSumSeconds {
		t.Errorf("before a restart of healthd %+v, after it %+v", total, again)
	}
	r.afterKill(again, want)
}

// check compares the report of the service, which was asked for at some time after asked, with what has happened.
func (r *reported) check(total api.ReportPeriod, asked time.Time) {
	r.t.Helper()
	now := instant{asked, time.Now()}
	observed, ready := r.began.until(now), r.ready
	ready.add(r.changed.until(now))
	observed.least, ready.least = observed.least-betweenLooks, ready.least-betweenLooks // until it was seen
	observed.check(r.t, "the observed time", total.ObservedSeconds)
	ready.check(r.t, "the ready time", total.ReadySeconds)
	r.longest.check(r.t, "the longest outage", total.LongestOutageSeconds)
	r.found.check(r.t, "the time that detections took", total.DetectionSumSeconds)
	between{0, r.began.notAfter.Sub(r.began.notBefore)}.check(r.t, "the time between creation and start", total.StoppedSeconds)
	if total.CapacitySeconds != total.ReadySeconds { // there is one container
		r.t.Errorf("got %+v", total)
	}
	if mean := total.DetectionSumSeconds / 2; total.DetectionMaxSeconds < mean-.01 || total.DetectionMaxSeconds > total.DetectionSumSeconds {
		r.t.Errorf("the longest of two detections of %v s took %v s", total.DetectionSumSeconds, total.DetectionMaxSeconds)
	}
}

// differs returns an error unless the counts are those that are wanted.
func differs(got, want api.ReportPeriod) error {
	if got.Outages != want.Outages || got.Detections != want.Detections || !maps.Equal(got.Restarts, want.Restarts) {
		return fmt.Errorf("got %+v, want the counts of %+v", got, want)
	}
	return nil
}

// settled returns the report of the service, once its counts are so: events reach it within a second.
func (r *reported) settled(want api.ReportPeriod) (found api.ServiceReport) {
	r.t.Helper()
	r.d.Eventually("report what has happened", func() error {
		code, body, err := r.d.Get("/v1/report?since=1h&service=web")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d: %s: %w", code, body, err)
		}
		if found, err = theService(body); err != nil {
			return err
		}
		return differs(found.Total, want)
	})
	return found
}

// theService returns the only service of a report.
func theService(body string) (api.ServiceReport, error) {
	var report api.Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		return api.ServiceReport{}, err
	}
	if len(report.Services) != 1 || report.Services[0].Name != "shop/web" || report.Services[0].Project != "shop" || report.Omitted != 0 || report.Since.IsZero() {
		return api.ServiceReport{}, fmt.Errorf("got %+v", report)
	}
	return report.Services[0], nil
}

// everywhere compares what the commands and the API say.
func (r *reported) everywhere(want api.ReportPeriod) {
	r.t.Helper()
	before := r.settled(want)
	out, code := r.d.Run("report", "shop/web", "--since", "24h", "-o", "json")
	printed, err := theService(out)
	if err = errors.Join(err, differs(printed.Total, want)); code != 0 || err != nil {
		r.t.Fatalf("exit code %d: %v", code, err)
	}
	var days float64
	for _, day := range printed.Days {
		days += day.Period.ReadySeconds
	}
	if math.Abs(days-printed.Total.ReadySeconds) > .1 {
		r.t.Errorf("the days have %v s, the total is %v s", days, printed.Total.ReadySeconds)
	}
	all, code := r.d.Run("report")
	one, oneCode := r.d.Run("report", "web", "--since", "1h")
	if code != 0 || oneCode != 0 {
		r.t.Fatalf("exit codes %d, %d:\n%s\n%s", code, oneCode, all, one)
	}
	after := r.settled(want)
	digits := 100 * time.Millisecond
	if after.Total.LongestOutageSeconds >= 10 {
		digits = time.Second
	}
	span := time.Duration(after.Total.LongestOutageSeconds * float64(time.Second)).Round(digits).String()
	for line, text := range map[string]string{"shop/web": all, "all": one} {
		cells := strings.Fields(rowOf(text, line))
		if len(cells) < 8 || cells[2] != strconv.Itoa(want.Outages) || cells[3] != span || !strings.Contains(rowOf(text, line), restartsOf(want)) {
			r.t.Errorf("want %d outages, the longest %s, restarts %s:\n%s", want.Outages, span, restartsOf(want), text)
			continue
		}
		percent, err := strconv.ParseFloat(cells[1], 64)
		if least, most := percentOf(before), percentOf(after); err != nil || percent < least-.001 || percent > most {
			r.t.Errorf("ready for %s %%, want %v to %v", cells[1], least, most)
		}
	}
	if cells := strings.Fields(rowOf(all, "shop/db")); len(cells) < 7 || strings.Join(cells[1:6], " ") != "100 0 - - -" {
		r.t.Errorf("nothing has happened to shop/db:\n%s", all)
	}
}

func percentOf(s api.ServiceReport) float64 {
	return s.Total.ReadySeconds / s.Total.ObservedSeconds * 100
}

func restartsOf(p api.ReportPeriod) string {
	return fmt.Sprintf("liveness %d, exit %d", p.Restarts["liveness"], p.Restarts["exit"])
}

// rowOf returns the line of a table that begins with a word.
func rowOf(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, word+" ") {
			return line
		}
	}
	return ""
}

// metrics returns the values of the service, by name and what the labels have beyond the service.
func (r *reported) metrics() map[string]float64 {
	r.t.Helper()
	_, body, err := r.d.Get("/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		name, labels, _ := strings.Cut(name, "{")
		if strings.HasPrefix(name, "healthd_service_") && strings.Contains(labels, `project="shop"`) && strings.Contains(labels, `service="shop/web"`) {
			_, reason, _ := strings.Cut(labels, `reason="`)
			reason, _, _ = strings.Cut(reason, `"`)
			if all[name+" "+reason], err = strconv.ParseFloat(value, 64); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return all
}

// checkCounters checks what the metrics count. They begin with healthd.
func (r *reported) checkCounters(got map[string]float64, want api.ReportPeriod) {
	r.t.Helper()
	for name, n := range map[string]int{
		"outages_total ": want.Outages, "detection_seconds_count ": want.Detections,
		"restarts_total liveness": want.Restarts["liveness"], "restarts_total exit": want.Restarts["exit"], "restarts_total startup": 0, "restarts_total operator": 0,
	} {
		if value, ok := got["healthd_service_"+name]; !ok || value != float64(n) {
			r.t.Errorf("healthd_service_%s is %v, want %d: %v", name, value, n, got)
		}
	}
}

// checkTimes checks the times of the metrics of a healthd that has kept the whole report, by one from before and one from after.
func checkTimes(t *testing.T, got map[string]float64, before, after api.ReportPeriod) {
	t.Helper()
	const slack = .1
	for name, want := range map[string][2]float64{
		"observed_seconds_total ": {before.ObservedSeconds, after.ObservedSeconds}, "ready_seconds_total ": {before.ReadySeconds, after.ReadySeconds},
		"detection_seconds_sum ": {before.DetectionSumSeconds, after.DetectionSumSeconds},
	} {
		if value, ok := got["healthd_service_"+name]; !ok || value < want[0]-slack || value > want[1]+slack {
			t.Errorf("healthd_service_%s is %v, want %v to %v", name, value, want[0], want[1])
		}
	}
}

// afterKill kills healthd, and starts it after a while.
func (r *reported) afterKill(before, want api.ReportPeriod) {
	r.t.Helper()
	r.d.WaitForJournal("shop-web-1")
	r.d.Kill()
	r.exec("sleep", "4")
	started := time.Now()
	r.d.Restart()
	r.d.Until("shop-web-1", "ready", harness.Ready)
	after := r.settled(want).Total // what the daemon before the killed one has written
	ran := time.Since(started)
	if lost := before.ObservedSeconds - after.ObservedSeconds; lost > 30 || -lost > ran.Seconds() {
		r.t.Errorf("observed for %v s before the kill, and for %v s %v after the start", before.ObservedSeconds, after.ObservedSeconds, ran)
	}
	if down := after.ObservedSeconds - after.ReadySeconds - (before.ObservedSeconds - before.ReadySeconds); math.Abs(down) > .1 {
		r.t.Errorf("the kill has cost %v s of ready time", down)
	}
	r.becomes(false, func() { r.d.EndProcess(r.e, r.id) })
	r.becomes(true, func() {})
	want.Outages, want.Restarts = want.Outages+1, map[string]int{"liveness": 1, "exit": 2}
	r.everywhere(want)
	r.checkCounters(r.metrics(), api.ReportPeriod{Outages: 1, Restarts: map[string]int{"exit": 1}})
}
