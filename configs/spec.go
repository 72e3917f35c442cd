package configs

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"healthd/supervisor/core"
)

const (
	maxThreshold = 1_000_000 // only catches slips
	maxGates     = 32
)

// Modes of the daemon and of a spec.
const (
	modeEnforce = "enforce"
	modeObserve = "observe"
)

// port is one entry of [spec.ports].
type port struct {
	number int
	n      *node
}

// specReader reads one spec.
type specReader struct {
	*reader
	ports   map[string]port
	grace   time.Duration // of the spec; 0 when it has none
	graceAt *node
}

// readSpec turns one [[spec]], with or without labels put over it, into a Spec.
// Name, MatchedBy and the default of Publish.Service are left to Resolve.
func readSpec(r *reader, n *node) *core.Spec {
	r.inSpec = true
	return readSpecTable(r.root(n))
}

func readSpecTable(t *table) *core.Spec {
	t.fileOnly(ownKeys()...)
	s := &specReader{reader: t.reader}
	spec := &core.Spec{
		RestartPolicy: core.RestartPolicy(t.choice("restart_policy",
			string(core.Always), string(core.OnFailure), string(core.Never))),
		RestartRules:           t.restartRules("restart_rules"),
		OnFailure:              core.FailureAction(t.choice("on_failure", string(core.RestartFailed), string(core.StopFailed), string(core.TellFailed))),
		Network:                t.network("network"),
		Observe:                t.choice("mode", modeEnforce, modeObserve) == modeObserve,
		TerminationGracePeriod: t.grace("the container's stop timeout, else " + showDuration(core.DefaultGrace)),
	}
	t.choice(orchestratedKey, orchestratedStop, orchestratedLeave, orchestratedRestart) // see draft
	s.grace, s.graceAt = spec.TerminationGracePeriod, t.take("termination_grace_period")
	// Before the probes and hooks, whose handlers may name a port.
	s.readPorts(t.sub("ports"))
	for which := range core.ProbeType(core.NumProbes) {
		if p := t.sub(which.String()); p.n != nil {
			spec.Probes[which] = s.probe(p, which)
		}
	}
	spec.ReadinessGates = t.distinct("readiness_gates", "gates", maxGates, checkGate, sameText)
	spec.Lifecycle = s.lifecycle(t.sub("lifecycle"))
	spec.Recorder = t.sub("recorder").recorder()
	spec.Backoff = s.backoff(t.sub("backoff"))
	spec.GiveUp = readGiveUp(t.sub("give_up"))
	spec.Group = readGroup(t.sub("group"))
	spec.Publish = s.publish(t.sub("publish"))
	t.done()
	return spec
}

func (s *specReader) probe(t *table, which core.ProbeType) *core.ProbeSpec {
	successes := span[int]{1, 1}
	if which == core.Readiness {
		successes.most = maxThreshold
	}
	p := &core.ProbeSpec{
		Handler:          s.handler(t),
		InitialDelay:     t.duration("initial_delay", 0, durations(0)),
		Period:           t.duration("period", core.DefaultPeriod, durations(core.MinPeriod)),
		Timeout:          t.duration("timeout", core.DefaultTimeout, durations(core.MinTimeout)),
		SuccessThreshold: t.integer("success_threshold", core.DefaultSuccessThreshold, successes),
		FailureThreshold: t.integer("failure_threshold", core.DefaultFailureThreshold, span[int]{1, maxThreshold}),
	}
	if which == core.Readiness {
		t.forbid("termination_grace_period", "must not be set on readiness: a failed readiness probe stops nothing")
	} else {
		p.TerminationGracePeriod = t.grace("the spec's")
	}
	t.done()
	return p
}

// network reads which of the container's networks gives its address.
func (t *table) network(key string) string {
	if !t.has(key) {
		t.take(key)
		return ""
	}
	return t.text(key, "", checkName)
}

// grace reads a grace period. When there is none it is zero, shown as otherwise.
func (t *table) grace(otherwise string) time.Duration {
	const key = "termination_grace_period"
	if !t.has(key) {
		t.take(key)
		t.value(key, otherwise, nil)
		return 0
	}
	return t.duration(key, 0, durations(time.Second))
}

func (t *table) forbid(key, why string) {
	if t.has(key) {
		t.wrong(t.take(key), t.at(key), "%s", why)
	}
}

func (s *specReader) readPorts(t *table) {
	s.ports = map[string]port{}
	if t.n == nil {
		return
	}
	for _, name := range t.n.keys() {
		n := t.n.fields[name]
		if wrong := checkPortName(name); wrong != "" {
			t.take(name)
			t.wrong(n, t.at(name), "%s", wrong)
			continue
		}
		s.ports[name] = port{t.integer(name, 0, span[int]{1, 65535}), n}
	}
}

// port reads a port: a number or a name from [spec.ports], returned with the
// entry it was found in. A name goes before a number, as in the kubelet.
func (s *specReader) port(t *table) (number int, named *node) {
	const key = "port"
	n := t.take(key)
	if n == nil {
		return 0, nil
	}
	if !n.textual() {
		if n.kind != integerKind {
			t.wrong(n, t.at(key), "must be a port number or name, is %s", n.describe())
			return 0, nil
		}
		return t.integer(key, 0, span[int]{1, 65535}), nil
	}
	if p, ok := s.ports[n.text]; ok {
		t.value(key, quoteTOML(n.text), n)
		return p.number, p.n
	}
	number, err := strconv.Atoi(n.text)
	if err == nil && number >= 1 && number <= 65535 {
		t.value(key, strconv.Itoa(number), n)
		return number, nil
	}
	if err != nil && t.partial {
		return 0, nil
	}
	if err == nil || n.text == "" {
		t.wrong(n, t.at(key), "must be 1 to 65535 or a port name, is %s", quote(n.text))
		return 0, nil
	}
	names := slices.Sorted(maps.Keys(s.ports))
	t.wrong(n, t.at(key), "no port named %s in ports%s", quote(n.text), didYouMean(n.text, names))
	return 0, nil
}

// hostIP reads the address of this host that balancers are told.
func (t *table) hostIP() string {
	const key = "host_address"
	t.fileOnly(key)
	if n := t.take(key); n == nil || n.at.fromLabel() {
		return ""
	}
	ip, err := netip.ParseAddr(t.text(key, "", checkHostIP))
	if err != nil {
		return ""
	}
	return ip.Unmap().String()
}

func (s *specReader) publish(t *table) core.Publish {
	var p core.Publish
	if t.has("service") {
		p.Service = t.text("service", "", checkService)
	}
	t.take("service")
	p.Port, _ = s.port(t)
	if t.take("address") != nil {
		p.Address = core.PublishAddress(t.choice("address", string(core.HostAddress), string(core.ContainerAddress)))
	}
	p.HostIP = t.hostIP()
	p.HAProxy = readBackend(t.sub("haproxy"))
	drain := time.Duration(0)
	if p.HAProxy.Backend != "" {
		drain = core.DefaultPushDrain // a drain of nothing leaves no time to tell HAProxy
	}
	p.Drain = t.duration("drain", drain, durations(0))
	t.done()
	return p
}
