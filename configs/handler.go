package configs

import (
	"net/http"
	"slices"
	"strings"

	"healthd/prober"
)

// handlerKeys are the keys of a probe of which it must have exactly one.
func handlerKeys() []string {
	return []string{"http_get", "tcp_socket", "exec", "grpc", "engine_health"}
}

func (s *specReader) handler(t *table) prober.Handler {
	var h prober.Handler
	t.exactlyOne(handlerKeys(), func(key string) {
		if key == "engine_health" {
			h.EngineHealth = t.engineHealth(key)
			return
		}
		sub := t.sub(key)
		switch key {
		case "http_get":
			h.HTTPGet = s.httpGet(sub)
			h.HTTPGet.Expect = sub.expect(h.HTTPGet.Method)
			h.HTTPGet.KeepAlive = sub.keepAlive(h.HTTPGet.Headers)
		case "tcp_socket":
			h.TCPSocket = s.tcpSocket(sub)
		case "exec":
			h.Exec = &prober.Exec{Command: sub.command("command"), WarningExitCodes: sub.warningCodes("warning_exit_codes")}
		case "grpc":
			h.GRPC = s.grpc(sub)
		}
		sub.done()
	})
	return h
}

// exactlyOne calls read for each of keys that is set, which must be one.
func (t *table) exactlyOne(keys []string, read func(key string)) {
	var set []string
	for _, key := range keys {
		if t.take(key) != nil {
			set = append(set, key)
			read(key)
		}
	}
	last := len(keys) - 1
	rule := "must have exactly one of " + strings.Join(keys[:last], ", ") + " and " + keys[last] + ", has "
	switch {
	case t.broken:
	case len(set) == 0 && t.partial:
	case len(set) == 0:
		t.wrong(t.n, t.path, "%snone", rule)
	case len(set) > 1:
		t.wrong(t.newest(set), t.path, "%s%s", rule, strings.Join(set, " and "))
	}
}

// newest returns the value of keys that was written last: one of a label, if there
// is one.
func (t *table) newest(keys []string) *node {
	values := make([]*node, len(keys))
	for i, key := range keys {
		if values[i] = t.n.fields[key]; values[i].at.fromLabel() {
			return values[i]
		}
	}
	return slices.MaxFunc(values, func(a, b *node) int { return a.at.line - b.at.line })
}

func (s *specReader) httpGet(t *table) *prober.HTTPGet {
	h := &prober.HTTPGet{
		Port:    s.requiredPort(t),
		Path:    t.text("path", "/", checkPath),
		Scheme:  strings.ToLower(t.choice("scheme", "http", "https", "HTTP", "HTTPS")),
		Host:    t.host(),
		Via:     t.via(),
		Method:  t.method("method"),
		Headers: t.headers("headers"),
		TLS:     t.tls(),
	}
	t.needHTTPS(h.Scheme)
	if !strings.HasPrefix(h.Path, "/") {
		h.Path = "/" + h.Path // as the kubelet does
	}
	return h
}

func (t *table) method(key string) string {
	if !t.has(key) {
		t.take(key)
		return ""
	}
	return t.word(key, "", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions)
}

func (s *specReader) tcpSocket(t *table) *prober.TCPSocket {
	return &prober.TCPSocket{Port: s.requiredPort(t), Host: t.host(), Via: t.via()}
}

func (s *specReader) grpc(t *table) *prober.GRPC {
	g := &prober.GRPC{}
	if !t.missing("port") {
		g.Port = t.integer("port", 0, span[int]{1, 65535})
	}
	g.Service = t.text("service", "", checkLine)
	g.Via = t.via()
	g.TLS = t.tls()
	g.KeepAlive = t.keepAlive(nil)
	t.protect(nil)
	return g
}

// missing reports a key that must be set and is not, and says whether it did.
func (t *table) missing(key string) bool {
	if t.take(key) != nil {
		return false
	}
	if !t.broken && !t.partial {
		t.wrong(t.n, t.at(key), "must be set")
	}
	return true
}

// requiredPort reads the port of a handler that may have a host. Where a file sets
// host, headers or certificates, labels must not set anything else there: they must not choose what healthd
// asks another host, or who is told what may be a secret.
func (s *specReader) requiredPort(t *table) int {
	if t.missing("port") {
		return 0
	}
	number, named := s.port(t)
	t.protect(named)
	return number
}

// protect reports what labels set in a handler, or for its port that is named, although a file sets
// there what they must not redirect.
func (t *table) protect(named *node) {
	by, what := t.protected()
	if by == nil {
		return
	}
	for _, key := range t.n.keys() {
		if n, path := labelled(t.n.fields[key], t.at(key)); n != nil && !slices.Contains(pemKeys(), path[strings.LastIndexByte(path, '.')+1:]) {
			t.wrong(n, path, "cannot be set by a label, because %s sets %s", by.at, what)
		}
	}
	if named != nil && named.at.fromLabel() {
		t.wrong(named, "ports."+showKey(t.n.fields["port"].text), "cannot be set by a label, because %s sets %s", by.at, what)
	}
}

// protected returns the place and the key of a file's setting in a handler that says or shows
// something which labels must not redirect: another host, headers, which may be secrets, or
// certificates. Nor must they ask what the reply to these has in it.
func (t *table) protected() (by *node, key string) {
	if n := t.n.fields["host"]; n != nil && n.text != "" && !n.at.fromLabel() {
		return n, "host"
	}
	if n := t.n.fields["headers"]; n != nil && len(n.items) > 0 && !n.at.fromLabel() {
		return n, "headers"
	}
	return namesFiles(t.n)
}

func (t *table) host() string {
	t.fileOnly("host")
	if n := t.take("host"); n != nil && n.at.fromLabel() {
		return ""
	}
	return t.text("host", "", checkHost)
}

// via reads where a handler's socket is opened.
func (t *table) via() prober.Via {
	const key = "via"
	if t.has(key) {
		return prober.Via(t.word(key, "", string(prober.ViaHost), string(prober.ViaContainer)))
	}
	t.take(key)
	otherwise := `"host"; without an address "container"`
	if t.has("host") && t.n.fields["host"].text != "" {
		otherwise = `"host"`
	}
	t.value(key, otherwise, nil)
	return prober.ViaDefault
}

// keepAlive reads whether a probe with these headers keeps its connection for the next one.
func (t *table) keepAlive(headers []prober.Header) bool {
	const key, keep = "connection", "keep-alive"
	if t.choice(key, "close", keep) != keep {
		return false
	}
	if !slices.ContainsFunc(headers, func(h prober.Header) bool { return strings.EqualFold(h.Name, key) }) {
		return true
	}
	n, list := t.n.fields[key], t.n.fields["headers"]
	if list.at.fromLabel() && !n.at.fromLabel() { // the file was right without the label
		t.wrong(list, t.at("headers"), "must not have Connection, because %s sets connection", n.at)
		return true
	}
	t.wrong(n, t.at(key), "must not be %s with a header Connection", quote(keep))
	return true
}

// engineHealth reads a handler without keys. A label cannot write an empty
// table, so it may say {}, true or nothing at all.
func (t *table) engineHealth(key string) *prober.EngineHealth {
	n := t.take(key)
	if n.kind == labelKind {
		if !slices.Contains([]string{"", "{}", "true"}, n.text) {
			t.wrong(n, t.at(key), "must be {}, is %s", n.describe())
		}
	} else {
		t.sub(key).done()
	}
	t.value(key, "{}", n)
	return &prober.EngineHealth{}
}

// command reads the words of a command.
func (t *table) command(key string) []string {
	if t.missing(key) {
		return nil
	}
	if n := t.take(key); n.kind == stringKind {
		t.wrong(n, t.at(key), "must be an array, is %s: write %s", n.describe(), commandInstead(n.text))
		return nil
	}
	n, words, ok := t.words(key, checkWord)
	if !ok {
		return nil
	}
	if len(words) == 0 || words[0] == "" {
		t.wrong(n, t.at(key), "must not be empty")
		return nil
	}
	if wrong := dockerCommand(words); wrong != "" {
		t.wrong(n, t.at(key), "%s", wrong)
		return nil
	}
	t.value(key, showWords(words), n)
	return words
}

// headers reads a list of tables. The values are not shown: they may be secrets.
func (t *table) headers(key string) []prober.Header {
	if !t.has(key) {
		t.take(key)
		return nil
	}
	n, ok := t.list(key, nil)
	if !ok {
		return nil
	}
	var headers []prober.Header
	var shown []string
	for i, item := range n.items {
		h, ok := t.header(item, t.at(key)+index(i))
		if ok {
			headers = append(headers, h)
			shown = append(shown, "{ name = "+quoteTOML(h.Name)+`, value = "***" }`)
		}
	}
	t.value(key, showList(shown), n)
	return headers
}

func (t *table) header(n *node, path string) (h prober.Header, ok bool) {
	if n.kind != tableKind { // which may be the secret itself
		t.wrong(n, path, `must be a table such as { name = "X-A", value = "b" }`)
		return h, false
	}
	before := len(t.problems)
	// A reader of its own keeps the header's value out of the spec's values.
	r := &reader{prefix: t.prefix, asked: t.asked}
	item := &table{reader: r, n: n, path: path}
	if !item.missing("name") {
		h.Name = item.text("name", "", checkHeaderName)
	}
	if !item.missing("value") {
		h.Value = item.secret("value", checkLine)
	}
	item.done()
	t.problems = append(t.problems, r.problems...)
	return h, len(t.problems) == before
}

// secret reads a string that no message repeats.
func (t *table) secret(key string, check func(string) string) string {
	n := t.take(key)
	switch {
	case !n.textual():
		t.wrong(n, t.at(key), "must be a string")
	case check(n.text) != "":
		t.wrong(n, t.at(key), "%s", check(n.text))
	default:
		return n.text
	}
	return ""
}
