package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestViewIsBounded(t *testing.T) {
	for name, limit := range map[string]limits{
		"keys":  {keys: 10, bytes: 1 << 20, wrong: 5, gone: 5},
		"bytes": {keys: 1000, bytes: 10 * 200, wrong: 5, gone: 5},
	} {
		v := newView("h0", 10*time.Second, false)
		v.limits = limit
		var all []record
		for i := range 100 {
			some, err := records(fmt.Sprintf("h1 c%d ready; raw/x%d", i, i), 10)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, some...)
		}
		c, _ := v.list(all, 10, playBegin)
		if n := len(c.put); n == 0 || n > 15 || len(v.entries) != n || v.bytes > limit.bytes {
			t.Errorf("%s: %d members are shown, %d entries have %d bytes", name, n, len(v.entries), v.bytes)
		}
		if len(v.wrong.names) != 5 || len(c.tell) != 2 || !strings.Contains(c.tell[0].message, "more than") {
			t.Errorf("%s: %d wrong keys are kept, told is %q", name, len(v.wrong.names), c.tell)
		}
		c, _ = v.list(nil, 11, playBegin)
		if v.tick(playBegin.Add(20 * time.Second)); len(v.entries) != 0 || v.bytes != 0 || len(v.shown) != 0 || len(c.tell) != 0 {
			t.Errorf("%s: when all is gone: %+v, told is %q", name, v, c.tell)
		}
	}
}

func TestLostHostsAreBounded(t *testing.T) {
	v := newView("h0", 10*time.Second, false)
	v.limits.gone = 3
	for i := range int64(10) {
		now := playBegin.Add(time.Duration(i) * time.Second)
		came, _ := records(fmt.Sprintf("h%d", i+1), 2*i+10)
		went, _ := records(fmt.Sprintf("-h%d", i+1), 2*i+11)
		v.events(came, 2*i+10, now)
		v.events(went, 2*i+11, now)
	}
	if all := v.hostList(); len(all) != 3 || all[0].Name != "h10" || all[2].Name != "h9" {
		t.Errorf("kept are %+v, want the three that were lost last", all)
	}
}

func TestWordsOfOthers(t *testing.T) {
	v := newView("h0", 10*time.Second, false)
	say := func(k key, rev int64) record {
		return record{name: k.String(), value: []byte(`{"run":1,"id":"a","drained":true}`), rev: rev}
	}
	mine := key{kind: wordKey, host: "h0", container: "a", balancer: "h1"}
	if c, _ := v.list([]record{say(mine, 10), say(key{kind: wordKey, host: "h2", container: "a", balancer: "h1"}, 10)}, 10, playBegin); !c.words || len(v.words) != 1 || !v.words[mine].Drained {
		t.Errorf("words are %+v, changed %t", v.words, c.words)
	}
	if c := v.events([]record{{name: mine.String(), rev: 11, deleted: true}}, 11, playBegin); !c.words || len(v.words) != 0 {
		t.Errorf("after the end words are %+v, changed %t", v.words, c.words)
	}
}

// A service that gets another name has one member under one ID, whatever the order of the two keys.
func TestMemberMovesToAnotherService(t *testing.T) {
	v := newView("h0", 10*time.Second, false)
	value, _ := memberRecord([]string{"h1", "a", stateReady})
	in := func(service string) string {
		return key{kind: memberKey, service: service, host: "h1", container: "a"}.String()
	}
	v.events([]record{{name: in("web"), value: value, rev: 10}}, 10, playBegin)
	c := v.events([]record{{name: in("shop/web"), value: value, rev: 11}, {name: in("web"), rev: 11, deleted: true}}, 11, playBegin)
	if len(c.put) != 1 || c.put[0].service != "shop/web" || len(c.gone) != 0 {
		t.Errorf("shown is %+v, gone is %v", c.put, c.gone)
	}
}
