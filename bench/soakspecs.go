package main

import (
	"fmt"
	"strings"
	"time"

	"healthd/bench/engine"
)

// soakServices is how many Compose services the containers are spread over.
const soakServices = 20

// specs are those of the containers. With each change the back-off of all is another one, and in each stretch a probe of
// some. Kinds of containers differ in how they are asked whether they live.
func (s *soak) specs(change int) string {
	period, odd, oddStretch := s.plan.period, time.Duration(change%2), change/reloadsOnce%2
	var b strings.Builder
	fmt.Fprintf(&b, `
[guard]
max_restarts = 600
window = "1m"
[defaults]
backoff = { initial = %q, max = %q, reset_after = "1m" }
termination_grace_period = "2s"
group = { max_unavailable = "50%%" }
`, period/5, s.plan.backoffMax()-odd*period/5)
	probe := func(table, handler string, period time.Duration, failures int) {
		fmt.Fprintf(&b, "[%s]\n%s\nperiod = %q\nfailure_threshold = %d\n", table, handler, period, failures)
	}
	probe("defaults.startup", `http_get = { port = "http", path = "/startup" }`, period, threshold)
	for kind := range engine.Kinds {
		fmt.Fprintf(&b, "[[spec]]\nname = \"kind-%[1]d\"\nmatch = { bench = \"%[1]d\" }\nports = { http = %[2]d, tcp = %[3]d }\n",
			kind, engine.SharedPort+kind, engine.SharedPort+engine.TCPOffset+kind)
		failures, readyPeriod := threshold, period
		switch handlerOf(kind) {
		case liveChanges:
			failures += oddStretch
		case readyChanges:
			readyPeriod += time.Duration(oddStretch) * period / 2
		}
		probe("spec.liveness", livenessHandlers[handlerOf(kind)], period, failures)
		probe("spec.readiness", `http_get = { port = "http", path = "/ready" }`, readyPeriod, threshold)
	}
	return b.String()
}

// handlers are how containers are asked whether they live, by the last digit of their number.
const (
	byExec = iota
	byGRPC
	byKeptGRPC
	byTCP
	byKeptHTTP
	liveChanges  // by HTTP, as the rest; a reload changes this probe
	readyChanges // a reload changes the other one
	handlers     = 10
)

func handlerOf(number int) int { return number % handlers }

var livenessHandlers = func() (all [handlers]string) {
	for i := range all {
		all[i] = `http_get = { port = "http", path = "/live" }`
	}
	all[byExec] = `exec = { command = ["true"] }`
	all[byGRPC] = fmt.Sprintf(`grpc = { port = %d }`, engine.GRPCPort)
	all[byKeptGRPC] = fmt.Sprintf(`grpc = { port = %d, connection = "keep-alive" }`, engine.GRPCPort)
	all[byTCP] = `tcp_socket = { port = "tcp" }`
	all[byKeptHTTP] = `http_get = { port = "http", path = "/live", connection = "keep-alive" }`
	return all
}()
