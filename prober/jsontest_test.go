package prober

import (
	"encoding/json"
	"strings"
	"testing"
)

func mustParseJSONTest(t *testing.T, text string) *JSONTest {
	t.Helper()
	test, err := ParseJSONTest(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return test
}

const healthJSON = `{"status":"up","ready":true,"down":false,"gone":null,"empty":"","none":0,"count":3,"load":0.5,"big":9007199254740993,
	"a key":{"x.y":1},"büro":1,"checks":{"db":[{"latency":12e-2,"name":"a && b"},{}]},"kebab-case":"it's"}`

func TestJSONTest(t *testing.T) {
	for _, tt := range []struct {
		test, body string
		want       string // why it does not hold; empty: it holds
	}{
		{"status == 'up'", "", ""},
		{`status=="up"`, "", ""},
		{" status  ==  'up' ", "", ""},
		{"status == 'down'", "", `"status == 'down'" does not hold: status is "up"`},
		{"status != 'down'", "", ""},
		{"status != 'up'", "", `"status != 'up'" does not hold: status is "up"`},
		{"status == 3", "", `"status == 3" does not hold: status is "up"`},
		{"status < 3", "", `"status < 3" does not hold: status is "up"`},
		{"count == '3'", "", `"count == '3'" does not hold: count is 3`},
		{"count == 3", "", ""},
		{"count == 3.0", "", ""},
		{"count != 3", "", `"count != 3" does not hold: count is 3`},
		{"count < 3", "", `"count < 3" does not hold: count is 3`},
		{"count <= 3", "", ""},
		{"count > 2.9", "", ""},
		{"count >= 3", "", ""},
		{"count >= 4", "", `"count >= 4" does not hold: count is 3`},
		{"count > -1e3", "", ""},
		{"big == 9007199254740993", "", ""},
		{"big == 9007199254740992", "", `"big == 9007199254740992" does not hold: big is 9007199254740993`},
		{"load < 0.51", "", ""},
		{"ready", "", ""},
		{"ready == true", "", ""},
		{"down", "", `"down" does not hold: down is false`},
		{"down == false", "", ""},
		{"gone", "", `"gone" does not hold: gone is null`},
		{"gone == null", "", ""},
		{"empty", "", ""},
		{"none", "", ""},
		{"checks", "", ""},
		{"checks != null", "", ""},
		{"checks == null", "", `"checks == null" does not hold: checks is an object`},
		{"checks.db == 1", "", `"checks.db == 1" does not hold: checks.db is an array`},
		{"missing", "", `"missing" does not hold: the body has no "missing"`},
		{"missing == null", "", `"missing == null" does not hold: the body has no "missing"`},
		{"missing != 'x'", "", `"missing != 'x'" does not hold: the body has no "missing"`},
		{"status.x", "", `"status.x" does not hold: the body has no "status.x"`},
		{"checks.db[2]", "", `"checks.db[2]" does not hold: the body has no "checks.db[2]"`},
		{"checks[0]", "", `"checks[0]" does not hold: the body has no "checks[0]"`},
		{"checks.db[0].latency < 0.2", "", ""},
		{"checks['db'][0]['latency'] < 0.2", "", ""},
		{`"a key"."x.y" == 1`, "", ""},
		{`['a key'][ "x.y" ] == 1`, "", ""},
		{"'a key'.z", "", `"'a key'.z" does not hold: the body has no "[\"a key\"].z"`},
		{"büro == 1", "", ""},
		{`kebab-case == "it's"`, "", ""},
		{"checks.db[0].name == 'a && b'", "", ""},
		{"ready && status == 'up' && count > 1", "", ""},
		{"ready&&down", "", `"down" does not hold: down is false`},
		{"down && missing", "", `"down" does not hold: down is false`},
		{"[0].ok", `[{"ok":1}]`, ""},
		{"[1]", `[{"ok":1}]`, `"[1]" does not hold: the body has no "[1]"`},
		{"a == 1e308", `{"a":1e309}`, `"a == 1e308" does not hold: a is 1e309`},
		{"a > 1", `{"a":1e309}`, `"a > 1" does not hold: a is 1e309`},
		{"a == 'x'", `{"a":"` + strings.Repeat("y", 200) + `"}`, `"a == 'x'" does not hold: a is "` + strings.Repeat("y", maxQuote) + `"…`},
		{"a == 1", `{"a":` + strings.Repeat("2", 200) + `}`, `"a == 1" does not hold: a is ` + strings.Repeat("2", maxQuote) + `…`},
		{"a", `{"a":1} `, ""},
		{"a", `{"a":1}{}`, "the body is not JSON"},
		{"a", `{"a":1`, "the body is not JSON"},
		{"a", `<html>`, "the body is not JSON"},
		{"a", `"\u0000 [[[["`, `"a" does not hold: the body has no "a"`},
		{"[0]", strings.Repeat("[", maxJSONDepth) + "1" + strings.Repeat("]", maxJSONDepth), ""},
		{"[0]", strings.Repeat("[", maxJSONDepth+1) + "1" + strings.Repeat("]", maxJSONDepth+1), "the body is JSON of more than 64 levels"},
		{"a", `{"a":"` + strings.Repeat(`\"[`, maxJSONDepth+1) + `"}`, ""},
	} {
		body := tt.body
		if body == "" {
			body = healthJSON
		}
		if got := mustParseJSONTest(t, tt.test).Unmet([]byte(body)); got != tt.want {
			t.Errorf("%s of %.80s:\ngot  %s\nwant %s", tt.test, body, got, tt.want)
		}
	}
}

func TestBadJSONTests(t *testing.T) {
	const path, op = "want a path such as status or checks[0].ok ", "want ==, !=, <, <=, >, >=, && or the end "
	const value = `want 'text', "text", a number, true, false or null `
	for text, want := range map[string]string{
		"":                        path + "at the end (character 1)",
		"  ":                      path + "at the end (character 3)",
		".a":                      path + "at character 1, which is '.'",
		"== 1":                    path + "at character 1, which is '='",
		"a = 1":                   op + "at character 3, which is '='",
		"a 'x'":                   op + "at character 3, which is '\\''",
		"a || b":                  op + "at character 3, which is '|'",
		"a & b":                   op + "at character 3, which is '&'",
		"a == 1 b":                op + "at character 8, which is 'b'",
		"a &&":                    path + "at the end (character 5)",
		"a && && b":               path + "at character 6, which is '&'",
		"a.":                      "want a key at the end (character 3)",
		"a..b":                    "want a key at character 3, which is '.'",
		"a.[0]":                   "want a key at character 3, which is '['",
		"a[":                      "want an index of at most 6 digits, or a key in quotes at the end (character 3)",
		"a[-1]":                   "want an index of at most 6 digits, or a key in quotes at character 3, which is '-'",
		"a[1234567]":              "want an index of at most 6 digits, or a key in quotes at character 3, which is '1'",
		"a[b]":                    "want an index of at most 6 digits, or a key in quotes at character 3, which is 'b'",
		"a[0":                     "want ] at the end (character 4)",
		"a['b' 1]":                "want ] at character 7, which is '1'",
		"a['b]":                   "the quote at character 3 is never closed",
		"ü == 'x":                 "the quote at character 6 is never closed",
		"a ==":                    value + "at the end (character 5)",
		"a == up":                 value + "at character 6, which is 'u'",
		"a == True":               value + "at character 6, which is 'T'",
		"a == 01":                 value + "at character 6, which is '0'",
		"a == +1":                 value + "at character 6, which is '+'",
		"a == 1e999":              value + "at character 6, which is '1'",
		"a == [1]":                value + "at character 6, which is '['",
		"a < 'x'":                 "want a number after < at character 5, which is '\\''",
		"a >= true":               "want a number after >= at character 6, which is 't'",
		"a \x00":                  op + "at character 3, which is '\\x00'",
		"\xff":                    "must be UTF-8 text",
		strings.Repeat("a", 4097): "has 4097 bytes, at most 4096 are allowed",
	} {
		_, err := ParseJSONTest(text)
		if err == nil || err.Error() != want {
			t.Errorf("%.80q: got %v, want %s", text, err, want)
		}
	}
}

// FuzzJSONTest asks of every test that can be read that it says the same of the same body, that it never
// holds of what is not JSON, and that its parts hold where it does.
func FuzzJSONTest(f *testing.F) {
	for _, test := range []string{
		"status == 'up' && checks.db[0].latency < 0.5 && ready", `["a"][0]."b" != null`, "a>=-1e3", "a == 'x", "[[", "a.b[0", "&&",
	} {
		f.Add(test, healthJSON)
		f.Add(test, "[[[]]]")
		f.Add(test, `{"a":`)
	}
	f.Fuzz(func(t *testing.T, text, body string) {
		test, err := ParseJSONTest(text)
		if err != nil {
			if test != nil || len(err.Error()) > 200 {
				t.Errorf("%q: %v, %v", text, test, err)
			}
			return
		}
		why := test.Unmet([]byte(body))
		if why == "" && !json.Valid([]byte(body)) {
			t.Errorf("%q holds of %q", text, body)
		}
		for _, c := range test.comparisons {
			part, err := ParseJSONTest(c.text)
			if err != nil || len(part.comparisons) != 1 {
				t.Fatalf("%q of %q: %v", c.text, text, err)
			}
			if why == "" && part.Unmet([]byte(body)) != "" {
				t.Errorf("%q holds of %q, but %q does not", text, body, c.text)
			}
		}
		if len(why) > 10*maxQuote+len(text)*6 {
			t.Errorf("%q: a reason of %d bytes", text, len(why))
		}
	})
}
