package docker

import (
	"fmt"
	"strings"
	"testing"
)

// portsOf is an inspection, and the same container in a list. The list shows exposed ports that are not published, too.
func portsOf(inspected, listed string) (inspection, list string) {
	const endpoints = `"Networks":{"bridge":{"IPAddress":"10.0.0.2"}}`
	return `{"Id":"` + fuzzedID + `","State":{"Status":"running"},"NetworkSettings":{` + endpoints + `,"Ports":` + inspected + `}}`,
		`[{"Id":"` + fuzzedID + `","State":"running","Ports":` + listed + `,"NetworkSettings":{` + endpoints + `}}]`
}

func TestPorts(t *testing.T) {
	const one, oneListed = `{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"}]}`, `[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"}]`
	for _, tt := range []struct{ name, inspected, listed, want string }{
		{"none", "{}", "[]", "[]"},
		{"null", "null", "null", "[]"},
		{"one", one, oneListed, "[{80 0.0.0.0 8080}]"},
		{"exposed only", `{"80/tcp":null,"81/tcp":[]}`, `[{"PrivatePort":80,"Type":"tcp"},{"PrivatePort":81,"Type":"tcp"}]`, "[]"},
		{"both families", `{"80/tcp":[{"HostIp":"::","HostPort":"8080"},{"HostIp":"0.0.0.0","HostPort":"8080"}]}`,
			`[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"IP":"::","PrivatePort":80,"PublicPort":8080,"Type":"tcp"}]`,
			"[{80 0.0.0.0 8080} {80 :: 8080}]"},
		{"all, as Podman writes it", `{"80/tcp":[{"HostIp":"","HostPort":"8080"}]}`, `[{"IP":"","PrivatePort":80,"PublicPort":8080,"Type":"tcp"}]`,
			"[{80 0.0.0.0 8080} {80 :: 8080}]"},
		{"udp", `{"53/udp":[{"HostIp":"0.0.0.0","HostPort":"53"}],"80/sctp":[{"HostIp":"0.0.0.0","HostPort":"80"}]}`,
			`[{"IP":"0.0.0.0","PrivatePort":53,"PublicPort":53,"Type":"udp"}]`, "[]"},
		{"no numbers, no addresses", `{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":""},{"HostIp":"x","HostPort":"1"},{"HostIp":"0.0.0.0","HostPort":"70000"}],"x/tcp":[{"HostPort":"1"}]}`,
			`[{"IP":"x","PrivatePort":80,"PublicPort":1,"Type":"tcp"}]`, "[]"},
		{"a list of something else", "{}", `[{"PrivatePort":"80"}]`, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inspection, list := portsOf(tt.inspected, tt.listed)
			e := engineThatAnswers(t, &fakeAnswers{texts: []string{inspection, list}})
			c, err := e.Inspect(t.Context(), fuzzedID)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c.HostPorts); got != tt.want || c.HostNetwork {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			listed, err := e.List(t.Context())
			if err != nil || len(listed) != 1 || listed[0].Fingerprint != c.Fingerprint {
				t.Errorf("a list shows %+v, %v, and an inspection %q", listed, err, c.Fingerprint)
			}
		})
	}
}

// A list shows that ports have changed, such as in a run that began while nobody listened.
func TestListShowsOtherPorts(t *testing.T) {
	const listed = `[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":32768,"Type":"tcp"}]`
	inspection, list := portsOf(`{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"32768"}]}`, listed)
	for _, other := range []string{"[]", strings.Replace(listed, "32768", "32769", 1), strings.Replace(listed, "0.0.0.0", "127.0.0.1", 1)} {
		e := engineThatAnswers(t, &fakeAnswers{texts: []string{inspection, list, strings.Replace(list, listed, other, 1)}})
		c, err := e.Inspect(t.Context(), fuzzedID)
		if err != nil {
			t.Fatal(err)
		}
		for _, same := range []bool{true, false} {
			all, err := e.List(t.Context())
			if err != nil || len(all) != 1 || all[0].Matches(c) != same {
				t.Errorf("%s: got %+v, %v, as before: %v", other, all, err, same)
			}
		}
	}
}
