package importer

import (
	"slices"
	"strings"
	"time"
)

// check makes a readiness probe of a check: a service with a critical check gets no requests. One with
// check_restart is a liveness probe, too.
func (t *nomadTask) check(s, c *block) {
	if c.has("task") {
		if of, ok := c.text(t.spec.own, "task"); !ok || of != t.task.label {
			t.spec.own.lost("%s of task %s (%s): write it as a probe into the spec of that task", checkName(c), of, c.at)
			return
		}
	}
	c.lostAttrs(t.spec.own, checkAttrs()...)
	restart := checkRestart(s, c)
	restart.lostAttrs(t.spec.own, "limit", "grace", "ignore_warnings")
	limit, _ := restart.number(t.spec.own, "limit")
	if t.spec.has("readiness") {
		t.spec.own.lost("%s (%s): a container has one readiness probe: have one address answer for all", checkName(c), c.at)
	} else {
		t.readiness(t.spec.table("readiness"), s, c)
	}
	switch {
	case limit <= 0:
	case t.spec.has("liveness"):
		t.spec.own.lost("%s with check_restart (%s): a container has one liveness probe", checkName(c), c.at)
	default:
		t.liveness(t.spec.table("liveness"), s, c, restart, limit)
	}
}

// checkAttrs returns the attributes of a check that are carried over, or told of, or that do not matter.
func checkAttrs() []string {
	return []string{
		"id", "name", "notes", "type", "task", "port", "path", "method", "protocol", "header", "body", "command", "args", "interval", "timeout", "expose",
		"address_mode", "initial_status", "on_update", "tls_skip_verify", "tls_server_name", "grpc_service", "grpc_use_tls", "success_before_passing",
		"failures_before_critical", "failures_before_warning",
	}
}

// checkRestart returns what the check says, and the service where it does not. As with Nomad, 0 and false say nothing.
func checkRestart(s, c *block) *block {
	own := c.first("check_restart").over(&block{})
	for key, nothing := range map[string]any{"limit": 0.0, "ignore_warnings": false} {
		if own.attrs[key].value == nothing {
			delete(own.attrs, key)
		}
	}
	return own.over(s.first("check_restart"))
}

// has says whether a table has settings.
func (d *draft) has(key string) bool {
	return slices.ContainsFunc(d.tables, func(t *table) bool { return t.header == "[spec."+key+"]" && t.settings() })
}

func (t *nomadTask) readiness(to *table, s, c *block) {
	if !t.handler(to, s, c, true) {
		return
	}
	t.timing(to, c)
	if n, ok := c.number(to, "success_before_passing"); ok && n > 1 {
		to.number("success_threshold", n)
	}
	fails, _ := c.number(to, "failures_before_critical")
	to.number("failure_threshold", max(1, fails)).because("so many failures make a check critical")
	if n, ok := c.number(to, "failures_before_warning"); ok && n > 0 {
		to.lost("failures_before_warning (%s): healthd has no state between ready and not ready", c.where("failures_before_warning"))
	}
	if status, ok := c.text(to, "initial_status"); ok && status == "passing" {
		to.lost("initial_status = passing (%s): healthd waits for the first success", c.where("initial_status"))
	}
	for _, key := range []string{"on_update", "expose", "body", "address_mode"} {
		why := map[string]string{
			"on_update": "healthd makes no deployments", "expose": "healthd needs no path through a mesh: it asks the container's address",
			"body": "healthd's requests have no body", "address_mode": "healthd asks the container's address; via = \"container\" asks inside it",
		}[key]
		if text, ok := c.text(to, key); ok && text != "" && text != "require_healthy" && text != "false" {
			to.lost("%s (%s): %s", key, c.where(key), why)
		}
	}
}

func (t *nomadTask) liveness(to *table, s, c, restart *block, limit int) {
	if !t.handler(&table{}, s, c, restart.boolean(to, "ignore_warnings")) { // the readiness probe says why
		to.lost("check_restart of %s (%s): its check could not be carried over", checkName(c), c.at)
		return
	}
	t.handler(to, s, c, restart.boolean(to, "ignore_warnings"))
	t.timing(to, c)
	fails, _ := c.number(to, "failures_before_critical")
	to.number("failure_threshold", limit+max(0, fails-1)).because("check_restart.limit of critical results")
	if grace, ok := restart.duration(to, "grace"); ok && grace > 0 {
		to.duration("initial_delay", grace).because("check_restart.grace; a startup probe does not make a quick start wait")
	}
}

func (t *nomadTask) timing(to *table, c *block) {
	if d, ok := c.duration(to, "interval"); ok {
		to.duration("period", d)
	}
	if d, ok := c.duration(to, "timeout"); ok {
		to.duration("timeout", d)
	}
}

// handler writes how a check asks. What Consul calls a warning is a success of readiness, as services with
// warnings get requests.
func (t *nomadTask) handler(to *table, s, c *block, warningsPass bool) bool {
	kind, _ := c.text(to, "type")
	switch kind {
	case "http":
		return t.http(to, s, c, warningsPass)
	case "tcp", "grpc":
		p, ok := t.checkPort(to, s, c)
		if !ok {
			return false
		}
		i := inline{}
		i.set("port", port{number: p}.String())
		if kind == "tcp" {
			to.set("tcp_socket", i.String())
			return true
		}
		if c.has("grpc_service") {
			service, ok := c.text(to, "grpc_service")
			if !ok {
				return false
			}
			i.text("service", service)
		}
		if c.boolean(to, "grpc_use_tls") {
			i.set("tls", checkTLS(to, c))
		}
		to.set("grpc", i.String())
		return true
	case "script":
		return script(to, c, warningsPass)
	}
	to.lost("%s of type %q (%s): healthd knows http, tcp, grpc and script", checkName(c), kind, c.where("type"))
	return false
}

// checkPort is the check's own port, else that of its service.
func (t *nomadTask) checkPort(to *table, s, c *block) (int, bool) {
	for _, b := range []*block{c, s} {
		if b.has("port") {
			return t.port(to, b, "port")
		}
	}
	to.lost("%s (%s): neither it nor its service has a port", checkName(c), c.at)
	return 0, false
}

func (t *nomadTask) http(to *table, s, c *block, warningsPass bool) bool {
	p, ok := t.checkPort(to, s, c)
	if !ok {
		return false
	}
	i := inline{}
	i.set("port", port{number: p}.String())
	path, known := c.text(to, "path")
	if c.has("path") && !known {
		return false
	}
	if path != "" && path != "/" {
		i.text("path", path)
	}
	if protocol, _ := c.text(to, "protocol"); protocol == "https" {
		i.text("scheme", "https")
		i.set("tls", checkTLS(to, c))
	}
	if method, ok := c.text(to, "method"); ok && method != "" && method != "GET" {
		i.text("method", method)
	}
	headers, ok := checkHeaders(to, c)
	if !ok {
		return false
	}
	if len(headers) > 0 {
		i.set("headers", headersOf(headers))
	}
	if provider, _ := s.text(to, "provider"); provider != "nomad" { // which takes 200 to 399, as healthd does
		expect := inline{}
		if warningsPass {
			expect.set("status", `["200-299", 429]`)
		} else {
			expect.set("status", `["200-299"]`)
		}
		i.set("expect", expect.String())
	}
	to.set("http_get", i.String())
	return true
}

// checkTLS verifies a server as Nomad's check does.
func checkTLS(to *table, c *block) string {
	i := inline{}
	if c.boolean(to, "tls_skip_verify") {
		i.set("verify", "false")
		return i.String()
	}
	i.set("verify", "true")
	if name, ok := c.text(to, "tls_server_name"); ok {
		i.text("server_name", name)
	}
	return i.String()
}

func checkHeaders(to *table, c *block) ([]header, bool) {
	all := map[string][]string{}
	for key, a := range c.first("header").attrs { // header { Name = ["value"] }
		values, ok := a.value.([]string)
		if !ok {
			to.lost("header %s (%s): the file alone does not tell, so the check is not carried over", key, a.at)
			return nil, false
		}
		all[key] = values
	}
	if c.has("header") {
		given, ok := get(c, to, "header", "table of lists", func(v any) (map[string][]string, bool) {
			m, ok := v.(map[string][]string)
			return m, ok
		})
		if !ok {
			return nil, false
		}
		all = given
	}
	var headers []header
	for key, values := range all {
		for _, v := range values {
			headers = append(headers, header{key, v})
		}
	}
	slices.SortStableFunc(headers, func(a, b header) int { return strings.Compare(a.name, b.name) })
	return headers, true
}

// script runs a command in the container. As with Consul, 1 is a warning.
func script(to *table, c *block, warningsPass bool) bool {
	command, ok := c.text(to, "command")
	if !ok {
		return false
	}
	var args []string
	if c.has("args") {
		if args, ok = c.words(to, "args"); !ok {
			return false
		}
	}
	i := execOf(literally(append([]string{command}, args...)))
	if warningsPass {
		i.set("warning_exit_codes", "[1]")
	}
	to.set("exec", i.String())
	return true
}

// nanoseconds is how Nomad's API writes durations.
func nanoseconds(n float64) string { return showDuration(time.Duration(n)) }
