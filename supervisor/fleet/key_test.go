package fleet

import (
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for text, want := range map[string]key{
		"hosts/h1":                        {kind: hostKey, host: "h1"},
		"members/shop%2Fweb/h1/web-1":     {kind: memberKey, service: "shop/web", host: "h1", container: "web-1"},
		"members/caf%C3%A9/h.1/id%3Aabcd": {kind: memberKey, service: "café", host: "h.1", container: "id:abcd"},
		"words/h1/web-1/h2":               {kind: wordKey, host: "h1", container: "web-1", balancer: "h2"},
		"places/shop%2Fweb/0":             {kind: placeKey, group: "shop/web"},
		"places/shop%2Fweb/119":           {kind: placeKey, group: "shop/web", n: 119},
		"holds/shop%2Fweb":                {kind: holdKey, service: "shop/web"},
	} {
		got, err := parseKey(text)
		if err != nil || got != want {
			t.Errorf("parseKey(%q) = %+v, %v, want %+v", text, got, err, want)
		}
		if back := want.String(); back != text {
			t.Errorf("%+v is %q, want %q", want, back, text)
		}
	}
}

func TestForeignKeys(t *testing.T) {
	for _, text := range []string{
		"", "/", "hosts", "hosts/", "hosts/%", "hosts//h1", "hosts/h1/", "hosts/h1/x", "hosts/id", "hosts/h%2F1", "hosts/h:1",
		"hosts/" + strings.Repeat("h", 65), "members/web/h1", "members/web/h1/", "members/web/h1/%", "members/web/h1/a%0Ab",
		"members/web/h1/a b", "members/web/h1/%c3%a9", "members/web/h1/%41", "members/web/h1/%4", "members/web/h1/%ZZ", "members/web/h1/%FF",
		"members/web/h1/" + strings.Repeat("x", 256), "members/web/h1/\x00", "members/web/h1/\xff", "members/" + strings.Repeat("%00", 9999) + "/h1/x",
		"places/web/-1", "places/web/01", "places/web/120", "places/web/x", "places/web/+1", "Hosts/h1", "leases/h1", "words/h1/web/id",
	} {
		if k, err := parseKey(text); err == nil {
			t.Errorf("parseKey(%.40q) = %+v, want an error", text, k)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("members/shop%2Fweb/h1/web-1")
	f.Add("places/a/7")
	f.Add("words/h/%C3%A9/h2")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseKey(text)
		if err == nil && k.String() != text {
			t.Errorf("%q is %+v, which is %q", text, k, k)
		}
	})
}

func FuzzKeyParts(f *testing.F) {
	f.Add("shop/web", "h1", "web-1", 3)
	f.Add("", "h", "%", 0)
	f.Fuzz(func(t *testing.T, service, host, container string, n int) {
		for _, k := range []key{
			{kind: hostKey, host: host}, {kind: memberKey, service: service, host: host, container: container},
			{kind: wordKey, host: host, container: container, balancer: host}, {kind: placeKey, group: service, n: n}, {kind: holdKey, service: service},
		} {
			got, err := parseKey(k.String())
			if wrong := k.check(); (wrong == nil) != (err == nil) {
				t.Errorf("%+v has %v as parts, %v as text", k, wrong, err)
			}
			if err == nil && got != k {
				t.Errorf("parseKey(%q) = %+v, want %+v", k, got, k)
			}
		}
	})
}
