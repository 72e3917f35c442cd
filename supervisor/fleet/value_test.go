package fleet

import (
	"reflect"
	"strings"
	"testing"

	"healthd/supervisor/core"
)

var web = memberValue{
	Container: "web-1", ID: strings.Repeat("a", 64), Run: 1, Address: "10.0.0.5", Port: 80, State: stateReady, Phase: core.PhaseRunning,
}

func TestMembersThatOthersTake(t *testing.T) {
	for name, change := range map[string]func(v *memberValue){
		"as it is":             func(*memberValue) {},
		"no address":           func(v *memberValue) { v.Address, v.Port = "", 0 },
		"IPv6":                 func(v *memberValue) { v.Address = "2001:db8::1" },
		"draining":             func(v *memberValue) { v.State, v.Awaits, v.Answers = stateDraining, awaitsWithdrawal, true },
		"with an ID as a name": func(v *memberValue) { v.Container = "id:" + v.ID },
	} {
		v := web
		change(&v)
		text, err := v.encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := decodeMember([]byte(text), key{container: v.Container}, false); err != nil || got != v {
			t.Errorf("%s: %s is %+v, %v, want %+v", name, text, got, err, v)
		}
	}
}

func TestMembersThatNobodyTakes(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"container":"web-1"}`, `{"container":5}`, "{\"container\":\"web-1\xff\"}", strings.Repeat(" ", maxValue) + "{}",
		memberText(`"port":80`, `"port":65536`), memberText(`"port":80`, `"port":-1`), memberText(`"port":80`, `"port":1e99`),
		memberText("10.0.0.5", "127.0.0.1"), memberText("10.0.0.5", "::1"), memberText("10.0.0.5", "0.0.0.0"), memberText("10.0.0.5", "224.0.0.1"),
		memberText("10.0.0.5", "255.255.255.255"), memberText("10.0.0.5", "fe80::1%eth0"), memberText("10.0.0.5", "fe80::1"), memberText("10.0.0.5", "::ffff:127.0.0.1"),
		memberText("10.0.0.5", "db.example"), memberText("ready", "fine"), memberText("Running", "running"), memberText(`"web-1"`, `"web-2"`),
		memberText(`"run":1`, `"run":"1"`), memberText(`"run":1`, `"reason":"a\nb"`), memberText(`"run":1`, `"backend":"a; shutdown"`+"\x01"),
	} {
		if v, err := decodeMember([]byte(text), key{container: "web-1"}, false); err == nil {
			t.Errorf("%.80q is %+v, want an error", text, v)
		}
	}
	if _, err := decodeMember([]byte(memberText("10.0.0.5", "127.0.0.1")), key{container: "web-1"}, true); err != nil {
		t.Errorf("a fleet on one machine: %v", err)
	}
}

func memberText(old, changed string) string {
	text, err := web.encode()
	if err != nil || !strings.Contains(text, old) {
		panic(text + " has no " + old)
	}
	return strings.Replace(text, old, changed, 1)
}

func TestLongReasonsAreCut(t *testing.T) {
	v := web
	v.Reason = strings.Repeat("é", 40) + "x"
	text, err := v.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeMember([]byte(text), key{container: "web-1"}, false)
	if want := strings.Repeat("é", 32); err != nil || got.Reason != want {
		t.Errorf("the reason is %q, %v, want %q", got.Reason, err, want)
	}
}

func TestRevisionIsNoChange(t *testing.T) {
	one, two := web, web
	one.Revision, two.Revision = 7, 12
	first, _ := one.encode()
	second, _ := two.encode()
	if first == second || bodyOf(first) != bodyOf(second) {
		t.Errorf("%s and %s are %s and %s without their revision", first, second, bodyOf(first), bodyOf(second))
	}
	if got := withRevision(bodyOf(first), 12); got != second {
		t.Errorf("got %s, want %s", got, second)
	}
}

func FuzzValue(f *testing.F) {
	f.Add([]byte(memberText("web-1", "web-1")))
	f.Add([]byte(`{"instance":"0123456789abcdef0123456789abcdef","version":"1.0","advertise":"10.0.0.5"}`))
	f.Add([]byte(`{"by":"h1","since":"2026-01-01T00:00:00Z","for":"1h0m0s"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data, decodeHost)
		again(t, data, decodeWord)
		again(t, data, decodePlace)
		again(t, data, decodeHold)
		again(t, data, func(data []byte) (memberValue, error) {
			var name struct{ Container string }
			_ = decode(data, &name)
			return decodeMember(data, key{container: name.Container}, true)
		})
	})
}

// again fails unless a value that was taken is the same when it is written and read again.
func again[V any](t *testing.T, data []byte, read func([]byte) (V, error)) {
	v, err := read(data)
	if err != nil {
		return
	}
	text, err := encode(v)
	if err != nil {
		return // written by others in fewer bytes
	}
	if got, err := read([]byte(text)); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%q is %+v, and %q is %+v, %v", data, v, text, got, err)
	}
}
