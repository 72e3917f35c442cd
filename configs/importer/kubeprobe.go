package importer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// podContainer is a container of a Pod and the spec that it becomes.
type podContainer struct {
	spec  *draft
	ports []value
}

// setGrace sets how long a container has to end. Kubernetes takes 0, and gives it a second.
func setGrace(t *table, v value) {
	const key = "termination_grace_period"
	if n, ok := v.integer(); ok && n == 0 {
		t.duration(key, time.Second).because("0 there; healthd gives a container at least 1s")
		return
	}
	setSeconds(t, key, v)
}

// setSeconds sets a duration from a number of seconds.
func setSeconds(t *table, key string, v value) {
	n, ok := v.integer()
	if !ok {
		t.lost("%s = %s (%s): it is no number of seconds", key, v.text(), v.at())
		return
	}
	t.duration(key, time.Duration(n)*time.Second)
}

func setNumber(t *table, key string, v value) {
	n, ok := v.integer()
	if !ok {
		t.lost("%s = %s (%s): it is no whole number", key, v.text(), v.at())
		return
	}
	t.number(key, n)
}

// probe writes a probe. Kubernetes has the same defaults, and takes 0 for one where 0 makes no sense.
func (c *podContainer) probe(name, table string, p value) {
	t := c.spec.table(table)
	key, handler, ok := c.handler(t, name, p, []string{"httpGet", "tcpSocket", "exec", "grpc"})
	if !ok {
		return
	}
	t.set(key, handler)
	for _, f := range []struct {
		from, to string
		seconds  bool
		zero     bool // is a value, not the default
	}{
		{"initialDelaySeconds", "initial_delay", true, true}, {"periodSeconds", "period", true, false}, {"timeoutSeconds", "timeout", true, false},
		{"successThreshold", "success_threshold", false, false}, {"failureThreshold", "failure_threshold", false, false},
	} {
		v := p.get(f.from)
		if n, ok := v.integer(); !v.there() || ok && n == 0 && !f.zero {
			continue
		}
		if f.seconds {
			setSeconds(t, f.to, v)
		} else {
			setNumber(t, f.to, v)
		}
	}
	if grace := p.get("terminationGracePeriodSeconds"); grace.there() {
		setGrace(t, grace)
	}
	lostFields(t, name, p, "httpGet", "tcpSocket", "exec", "grpc", "initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold",
		"failureThreshold", "terminationGracePeriodSeconds")
}

// lostFields tells of what a table has besides what is known.
func lostFields(t *table, name string, v value, known ...string) {
	for _, e := range v.entries() {
		if !slices.Contains(known, e.key) {
			t.lostHarmless("%s.%s (%s): healthd does not know this field", name, e.key, e.at())
		}
	}
}

// handler returns the one handler of a probe or hook as TOML.
func (c *podContainer) handler(t *table, name string, p value, known []string) (key, handler string, ok bool) {
	var has []string
	for _, h := range known {
		if p.get(h).there() {
			has = append(has, h)
		}
	}
	if len(has) != 1 {
		t.lost("%s (%s): it must have one of %s", name, p.at(), strings.Join(known, ", "))
		return "", "", false
	}
	v := p.get(has[0])
	switch has[0] {
	case "httpGet":
		handler, ok = c.httpGet(t, name, v)
		return "http_get", handler, ok
	case "tcpSocket":
		handler, ok = c.tcpSocket(t, name, v)
		return "tcp_socket", handler, ok
	case "exec":
		handler, ok = execCommand(t, name, v)
		return "exec", handler, ok
	case "grpc":
		handler, ok = grpcPort(t, name, v)
		return "grpc", handler, ok
	}
	i := inline{} // sleep
	n, ok := v.get("seconds").integer()
	if !ok {
		t.lost("%s.sleep (%s): it has no number of seconds", name, v.at())
	}
	i.set("duration", quote(showDuration(time.Duration(n)*time.Second)))
	return "sleep", i.String(), ok
}

func (c *podContainer) httpGet(t *table, name string, v value) (string, bool) {
	p, ok := c.port(t, name+".httpGet.port", v.get("port"))
	i := inline{}
	i.set("port", p.String())
	if path := v.get("path").text(); path != "" && path != "/" {
		i.text("path", path)
	}
	if scheme := v.get("scheme").text(); scheme != "" && scheme != "HTTP" {
		i.text("scheme", strings.ToLower(scheme))
	}
	i.text("host", v.get("host").text())
	var headers []header
	for _, h := range v.get("httpHeaders").items() {
		headers = append(headers, header{h.get("name").text(), h.get("value").text()})
	}
	if len(headers) > 0 {
		i.set("headers", headersOf(headers))
	}
	lostFields(t, name+".httpGet", v, "port", "path", "scheme", "host", "httpHeaders")
	return i.String(), ok
}

func (c *podContainer) tcpSocket(t *table, name string, v value) (string, bool) {
	p, ok := c.port(t, name+".tcpSocket.port", v.get("port"))
	i := inline{}
	i.set("port", p.String())
	i.text("host", v.get("host").text())
	lostFields(t, name+".tcpSocket", v, "port", "host")
	return i.String(), ok
}

// execCommand takes a command as it is: the kubelet expands $(NAME) as healthd does.
func execCommand(t *table, name string, v value) (string, bool) {
	command, ok := v.get("command").texts()
	if !ok {
		t.lost("%s.exec (%s): its command is no list of words", name, v.at())
	}
	lostFields(t, name+".exec", v, "command")
	return execOf(command).String(), ok
}

func grpcPort(t *table, name string, v value) (string, bool) {
	n, ok := v.get("port").integer()
	if !ok {
		t.lost("%s.grpc.port (%s): it is no number", name, v.at())
	}
	i := inline{}
	i.set("port", port{number: n}.String())
	i.text("service", v.get("service").text())
	lostFields(t, name+".grpc", v, "port", "service")
	return i.String(), ok
}

// port returns a number, or the name of one of the container's TCP ports, which it writes into [spec.ports]. As with
// the kubelet, digits are a number, also as text.
func (c *podContainer) port(t *table, name string, v value) (port, bool) {
	if n, ok := v.integer(); ok {
		return port{number: n}, true
	}
	text := v.text()
	protocol := "TCP"
	for _, p := range c.ports {
		if is := p.get("protocol").text(); p.get("name").text() == text && is != "" && is != protocol {
			protocol = is
			continue
		}
		if n, ok := p.get("containerPort").integer(); ok && text != "" && p.get("name").text() == text {
			if ports := c.spec.table("ports"); !ports.has(bare(text)) {
				ports.number(text, n)
			}
			return port{name: text}, true
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 65535 {
		return port{number: n}, true
	}
	switch {
	case !v.is(yaml.ScalarNode) || text == "":
		t.lost("%s (%s): it is no port", name, v.at())
	case protocol != "TCP":
		t.lost("%s = %s (%s): that port of the container is %s, which healthd does not ask: write the number of one that is TCP", name, text, v.at(), protocol)
	default:
		t.lost("%s = %s (%s): the container has no port of that name: write its number", name, text, v.at())
	}
	return port{}, false
}

// lifecycle writes the hooks.
func (c *podContainer) lifecycle(v value) {
	if !v.there() {
		return
	}
	t := c.spec.table("lifecycle")
	for _, h := range []struct{ from, to string }{{"postStart", "post_start"}, {"preStop", "pre_stop"}} {
		hook := v.get(h.from)
		if !hook.there() {
			continue
		}
		key, handler, ok := c.handler(t, "lifecycle."+h.from, hook, []string{"httpGet", "tcpSocket", "exec", "sleep"})
		if !ok {
			continue
		}
		i := inline{}
		i.set(key, handler)
		t.set(h.to, i.String())
	}
	if v.get("stopSignal").there() {
		t.lost("lifecycle.stopSignal = %s (%s): Docker sends the stop signal: set it with stop_signal in Compose, or docker run --stop-signal", v.get("stopSignal").text(), v.get("stopSignal").at())
	}
	lostFields(t, "lifecycle", v, "postStart", "preStop", "stopSignal")
}

// rules writes what follows exit codes.
func (c *podContainer) rules(v value) {
	for _, r := range v.items() {
		t := c.spec.add("[[spec.restart_rules]]")
		var codes []string
		for _, code := range r.get("exitCodes", "values").items() {
			codes = append(codes, code.text())
		}
		if action := r.get("action").text(); action != "Restart" || !numbers(codes) {
			t.lost("restartPolicyRules (%s): healthd knows the action Restart and exit codes only", r.at())
			continue
		}
		t.set("exit_codes", "["+strings.Join(codes, ", ")+"]")
		t.text("operator", r.get("exitCodes", "operator").text())
		t.text("action", "Restart")
	}
}

// numbers says that all are whole numbers as TOML has them.
func numbers(all []string) bool {
	for _, s := range all {
		if s == "" || len(s) > 9 || strings.Trim(s, "0123456789") != "" || len(s) > 1 && s[0] == '0' {
			return false
		}
	}
	return len(all) > 0
}
