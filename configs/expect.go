package configs

import (
	"net/http"

	"healthd/prober"
)

// maxStatuses bounds the list of statuses that a probe expects.
const maxStatuses = 20

// expect reads which replies to the probe of t are a success.
func (t *table) expect(method string) *prober.Expect {
	sub := t.sub("expect")
	if sub.n == nil {
		return nil
	}
	e := &prober.Expect{
		Status:        sub.statuses("status"),
		Body:          sub.optional("body", checkNotEmpty),
		JSON:          sub.optional("json", checkJSONTest),
		WarningHeader: sub.optional("warning_header", checkReplyHeader),
	}
	sub.done()
	if method == http.MethodHead {
		t.forbidBody(sub)
	}
	return e
}

// forbidBody reports what expect asks of the body of a reply that has none.
func (t *table) forbidBody(expect *table) {
	for _, key := range []string{"body", "json"} {
		n := expect.n.fields[key]
		switch m := t.n.fields["method"]; {
		case n == nil:
		case m.at.fromLabel() && !n.at.fromLabel(): // the file was right without the label
			t.wrong(m, t.at("method"), "must not be HEAD, whose reply has no body, because %s sets expect.%s", n.at, key)
			return
		default:
			t.wrong(n, expect.at(key), `must not be set with method = "HEAD", whose reply has no body`)
		}
	}
}

// optional reads a text that is empty when it is not set.
func (t *table) optional(key string, check func(string) string) string {
	if !t.has(key) {
		t.take(key)
		return ""
	}
	return t.text(key, "", check)
}

// statuses reads statuses and ranges of them. A number need not be a string.
func (t *table) statuses(key string) []prober.StatusRange {
	if !t.has(key) {
		t.take(key)
		return nil
	}
	n, ok := t.list(key, shellWords)
	if !ok {
		return nil
	}
	if count := len(n.items); count < 1 || count > maxStatuses {
		t.wrong(n, t.at(key), "must have 1 to %d statuses, has %d", maxStatuses, count)
		return nil
	}
	var all []prober.StatusRange
	var shown []string
	for i, item := range n.items {
		r, err := prober.ParseStatusRange(item.text)
		if err != nil || !item.textual() && item.kind != integerKind {
			t.wrong(item, t.at(key)+index(i), `must be a status such as "200" or a range such as "200-299", from 100 to 599, is %s`, item.describe())
			ok = false
			continue
		}
		all, shown = append(all, r), append(shown, quoteTOML(r.String()))
	}
	if ok {
		t.value(key, showList(shown), n)
	}
	return all
}

func checkJSONTest(s string) string {
	if _, err := prober.ParseJSONTest(s); err != nil {
		return "must be a test such as \"status == 'up'\": " + err.Error()
	}
	return ""
}

func checkReplyHeader(s string) string {
	if !headerForm.MatchString(s) {
		return "must be letters, digits and -"
	}
	return ""
}

// warningCodes reads the exit codes that are a warning: not 0, which is a success.
func (t *table) warningCodes(key string) []int {
	if !t.has(key) {
		t.take(key)
		return nil
	}
	return t.exitCodes(key, 1)
}
