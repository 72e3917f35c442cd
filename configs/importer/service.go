package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// service is a container, or the containers of a Compose service, of Docker or of a Compose file: both say the same
// about health.
type service struct {
	project, name string // of Compose; project is empty of another container
	container     string // its name, where it has no project
	labels        map[string]string

	check        *runtime.Healthcheck // nil: there is none
	checkIsOf    string               // who else may have one, if check is nil: "image"; empty: nobody
	restart      string               // Docker's restart policy
	restartMax   int                  // of "on-failure"; 0: no limit
	stopTimeout  time.Duration        // negative: none is set
	autoRemove   bool
	networkOf    string // the container or service whose network it uses; empty: its own
	ports        []int  // that it listens on, as far as known
	configuredBy string // what the present configuration of healthd makes of it; empty: nothing
}

// called is how people call it.
func (s *service) called() string {
	if s.project != "" {
		return s.project + "/" + s.name
	}
	return s.container
}

// What healthd asks the engine about a HEALTHCHECK's verdict. The check itself has counted its retries.
const (
	verdictPeriod    = 5 * time.Second
	verdictThreshold = 1
)

// Docker's defaults for a HEALTHCHECK.
const (
	checkInterval      = 30 * time.Second
	checkTimeout       = 30 * time.Second
	checkStartInterval = 5 * time.Second
	checkRetries       = 3
)

// addService adds the spec of a service.
func (d *document) addService(s *service, healers []*healer) (*draft, error) {
	name := s.container
	if s.project != "" {
		name = s.project + "-" + s.name
	}
	spec, err := d.add(name)
	if err != nil {
		return nil, err
	}
	own := spec.own
	s.match(own)
	if s.configuredBy != "" {
		own.remark("The configuration has a spec for it already: %s. The first one that matches counts.", s.configuredBy)
	}
	by := s.healedBy(healers)
	s.policy(own, by)
	s.grace(own, by)
	if s.networkOf != "" {
		own.remark("It uses the network of %s: healthd restarts it when that one has a new run.", s.networkOf)
	}
	s.probes(spec, by)
	if by.heals() {
		by.limits(spec)
	}
	s.publish(spec)
	return spec, nil
}

// match says which containers the spec is for.
func (s *service) match(t *table) {
	if s.project == "" {
		t.text("match_name", literalGlob(s.container))
		return
	}
	m := inline{}
	m.set(quote(core.ComposeProject), quote(literalGlob(s.project)))
	m.set(quote(core.ComposeService), quote(literalGlob(s.name)))
	t.set("match", m.String())
}

// literalGlob is a pattern that matches s. It matches others, too, if s has what patterns know.
func literalGlob(s string) string { return strings.ReplaceAll(s, "*", "?") }

// policy writes what follows an exit.
func (s *service) policy(t *table, by treatment) {
	switch {
	case s.autoRemove:
		t.remark("It has --rm: healthd probes it and never restarts it.")
		t.text("restart_policy", string(core.Never))
	case s.restart == "always" || s.restart == "unless-stopped":
		t.text("restart_policy", string(core.Always)).because("Docker's own, %s, still rules exits", s.restart)
	case s.restart == "on-failure":
		t.text("restart_policy", string(core.OnFailure)).because("Docker's own, on-failure, still rules exits")
		if s.restartMax > 0 {
			bound := &table{}
			bound.set("give_up", fmt.Sprintf("{ restarts = %d }", min(s.restartMax, core.MaxGiveUp)))
			t.suggest(fmt.Sprintf("on-failure:%d bounds Docker's restarts, not healthd's. To bound these, too:", s.restartMax), bound)
		}
	case by.heals():
		t.lost("restart: no: %s restarts it when it is unhealthy, and nobody after an exit. With OnFailure healthd also restarts it after an exit with an error; with Never it would stop it and not start it again.", by.tool)
		t.text("restart_policy", string(core.OnFailure))
	default:
		t.remark("Docker's restart policy is no, so nobody restarts it. To have it restarted after a failed check, write restart_policy = \"OnFailure\" and a [spec.liveness] like its [spec.readiness].")
		t.text("restart_policy", string(core.Never))
	}
	switch by.action {
	case "stop":
		t.text("on_failure", string(core.StopFailed)).because("autoheal.action=stop")
	case "notify":
		t.text("on_failure", string(core.TellFailed)).because("autoheal.action=notify")
	}
}

// grace writes how long the container has to end.
func (s *service) grace(t *table, by treatment) {
	const key = "termination_grace_period"
	if text, ok := s.labels[autohealTimeout]; ok && by.heals() && by.tool != "deunhealth" {
		if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 && seconds <= 365*24*60*60 {
			t.duration(key, time.Duration(seconds)*time.Second).because("%s=%d", autohealTimeout, seconds)
			return
		}
		t.lost("%s = %s: it is no number of seconds", autohealTimeout, text)
	}
	switch {
	case by.heals() && by.stop >= 0:
		t.duration(key, by.stop).because("AUTOHEAL_DEFAULT_STOP_TIMEOUT")
	case s.stopTimeout >= 0:
		t.duration(key, s.stopTimeout).because("its stop timeout")
	}
}

// probes writes the HEALTHCHECK as liveness and readiness: the engine goes on running it, and healthd asks for its
// verdict.
func (s *service) probes(spec *draft, by treatment) {
	if s.check == nil && s.checkIsOf == "" {
		spec.own.remark("It has no HEALTHCHECK. healthd can ask it by itself, over HTTP, TCP or gRPC: write a probe (docs/configuration.md).")
		return
	}
	if restarted := by.heals() || by.spurned == "" && s.restart != "no" && s.restart != "" && !s.autoRemove; restarted {
		s.liveness(spec.table("liveness"), by)
	} else if by.spurned != "" {
		spec.own.remark("There is no liveness probe: %s.", by.spurned)
	}
	for _, doubt := range Doubts(s.check) {
		spec.own.remark("%s.", doubt)
	}
	t := spec.table("readiness")
	t.set("engine_health", "{}")
	t.duration("period", by.period())
	t.number("failure_threshold", verdictThreshold).because("the HEALTHCHECK has counted its retries")
	s.alternative(t)
}

func (s *service) liveness(t *table, by treatment) {
	threshold := verdictThreshold
	if by.heals() {
		t.remark("%s.", by.why(true))
		threshold = by.threshold
	} else {
		t.remark("Docker only marks it unhealthy. With this probe healthd restarts it; without it, it does not.")
	}
	if s.check == nil || len(s.check.Test) == 0 {
		t.remark("The file has no test of a healthcheck for it, so its image must have a HEALTHCHECK. Without one these probes are Unknown for ever.")
	}
	t.set("engine_health", "{}")
	t.duration("period", by.period())
	t.number("failure_threshold", threshold+1).because("one more than readiness: load balancers hear of it first")
}

// alternative tells how healthd could run the check itself.
func (s *service) alternative(t *table) {
	c := s.check
	if c == nil {
		return
	}
	command := commandOf(c)
	if command == nil {
		return
	}
	if strings.Contains(execOf(command).String(), notUTF8) {
		t.remark("The command of the HEALTHCHECK is not UTF-8 text: healthd could not run it by itself.")
		return
	}
	p := &table{}
	p.set("exec", execOf(command).String())
	p.duration("period", cmp.Or(c.Interval, checkInterval))
	p.duration("timeout", cmp.Or(c.Timeout, checkTimeout))
	p.number("failure_threshold", cmp.Or(c.Retries, checkRetries))
	what := "In place of the HEALTHCHECK, if you remove it:"
	if c.StartPeriod > 0 {
		every := cmp.Or(c.StartInterval, checkStartInterval)
		p.remark("start_period = %s: a [spec.startup] with the same exec, period = %q, failure_threshold = %d",
			showDuration(c.StartPeriod), showDuration(every), timesOver(c.StartPeriod, every)+cmp.Or(c.Retries, checkRetries))
	}
	t.suggest(what, p)
}

// Doubts says why a HEALTHCHECK may not tell how its container is. nil has none.
func Doubts(c *runtime.Healthcheck) []string {
	if c == nil || len(c.Test) < 2 {
		return nil
	}
	var doubts []string
	command := strings.TrimSpace(strings.Join(c.Test[1:], " "))
	for _, end := range []string{"|| exit 0", "|| true", "|| :", "; exit 0", "; true"} {
		if strings.HasSuffix(strings.TrimSuffix(command, ";"), end) {
			doubts = append(doubts, fmt.Sprintf("Its HEALTHCHECK ends in %q, so it never fails", end))
		}
	}
	if asksLocalhost.MatchString(command) {
		doubts = append(doubts, "Its HEALTHCHECK asks localhost, which may be ::1: where the server listens on IPv4 only, that is refused; 127.0.0.1 is certain")
	}
	return doubts
}

var asksLocalhost = regexp.MustCompile(`\blocalhost\b`)

// commandOf returns a HEALTHCHECK's command as healthd would run it.
func commandOf(c *runtime.Healthcheck) []string {
	if len(c.Test) < 2 {
		return nil
	}
	switch words := c.Test[1:]; c.Test[0] {
	case "CMD":
		return literally(words)
	case "CMD-SHELL":
		return literally([]string{"sh", "-c", strings.Join(words, " ")})
	}
	return nil
}

// publish names the port that traffic goes to, if there is only one that it can be.
func (s *service) publish(spec *draft) {
	ports := slices.Compact(slices.Sorted(slices.Values(s.ports)))
	switch {
	case len(ports) == 1:
		spec.table("publish").number("port", ports[0]).because("load balancers hear of this port")
	case len(ports) > 1:
		t, choice := spec.table("publish"), &table{header: "[spec.publish]"}
		for _, p := range ports[1:] {
			choice.remark("port = %d", p)
		}
		choice.lines = append([]line{{key: "port", value: fmt.Sprint(ports[0])}}, choice.lines...)
		t.suggest("It listens on several ports. If load balancers shall hear of one:", choice)
	}
}

// addDockerHead says what holds for all specs of containers of Docker's.
func (d *document) addDockerHead() {
	d.head.remark("engine_health: Docker goes on running the HEALTHCHECK, and healthd reads its verdict, so one command runs, not two.")
	d.head.remark("restart_policy: where Docker has one of its own, Docker restarts after exits, and healthd after failed probes.")
}
