package haproxy

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"
)

const (
	serversHeader = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
	serversText   = "1\n" + serversHeader + "4 dyn 864600000 c1 127.0.0.1 0 1 100 100 0 1 0 0 2 18 0 1 - 18001 - 0 0 - 127.0.0.1 18647\n\n"
	statText      = "# pxname,svname,scur,qcur,status,weight,act,agent_health,agent_rise,check_status,last_agt,\ndyn,c1,1,2,UP,50,1,1,1,L4OK,\"no \"\"answer\"\", so far\",\n"
)

func TestReadServers(t *testing.T) {
	t.Parallel()
	backends, err := readServers(serversText)
	if err != nil || len(backends["dyn"]) != 1 {
		t.Fatalf("got %v, %v", backends, err)
	}
	s := backends["dyn"][0]
	if _, err := readStat(statText, backends["dyn"]); err != nil {
		t.Fatal(err)
	}
	p := &plan{agent: agentAddress{"127.0.0.1", 18647}}
	if s.key("dyn") != "dyn/c1" || s.address.String() != "127.0.0.1" || s.port != 18001 || !p.addedByHealthd(s) || !s.setAside() || s.agentState&checkEnabled != 0 ||
		s.sessions != 3 || s.effectiveWeight != 50 || !s.agentUp || !s.takesTraffic() || s.free() {
		t.Errorf("got %+v", s)
	}
}

// An invalid answer is an error that quotes it.
func TestReadInvalidAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ servers, stat, want string }{
		{"", statText, `show servers state: it answers ""`},
		{"2\n" + serversHeader, statText, `show servers state: it answers "2 …"`},
		{"1\n# be_name\n", statText, "show servers state: there is no column be_id"},
		{"1\n" + serversHeader + "4 dyn\n", statText, "show servers state: a line of 2 columns"},
		{strings.Replace(serversText, "18001", "port", 1), statText, `show servers state: column srv_port is "port"`},
		{strings.Replace(serversText, "18001", "65616", 1), statText, "show servers state: column srv_port is 65616"},
		{strings.Replace(serversText, "18001", "-1", 1), statText, `show servers state: column srv_port is "-1"`},
		{serversText, strings.Replace(statText, ",1,2,", ",9223372036854775807,2,", 1), `show stat: column scur is "9223372036854775807"`},
		{serversText, "No such proxy.", `show stat: it answers "No such proxy."`},
		{serversText, "# pxname,svname\n", "show stat: there is no column status"},
		{serversText, strings.Replace(statText, ",50,", ",a\"b,", 1), "show stat: bare \" in non-quoted-field"},
		{serversText, strings.Replace(statText, ",50,", ",many,", 1), `show stat: column weight is "many"`},
		{serversText, "# pxname,svname,scur,qcur,status,weight,act,agent_health,agent_rise,check_status\n", errIncompleteStat.Error()},
		{serversText, "# pxname,svname,scur,qcur,status,weight,act,agent_health,agent_rise,check_status\ndyn,c1\n", "show stat: a line of 2 columns"},
	} {
		backends, err := readServers(tc.servers)
		if err == nil {
			_, err = readStat(tc.stat, backends["dyn"])
		}
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q, %q: got %v, want %s", tc.servers, tc.stat, err, tc.want)
		}
	}
	for _, info := range []string{"Name: HAProxy", "Pid: 8\nUptime_sec: -5", "Pid: 8\nUptime_sec: 1h5"} {
		if _, _, err := readInfo(info + "\n"); err == nil || !strings.HasPrefix(err.Error(), `show info: it answers "`) {
			t.Errorf("%q: got %v", info, err)
		}
	}
	if backends, err := readServers(strings.Replace(serversText, " c1 ", " c1;quit ", 1)); err != nil || len(backends) != 0 {
		t.Errorf("got %v, %v of a server that no command can name", backends, err)
	}
}

func TestSocketNotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]socket{
		"/run/haproxy/admin.sock": {network: "unix", address: "/run/haproxy/admin.sock"},
		"unix@/run/h.sock":        {network: "unix", address: "/run/h.sock"},
		"ipv4@127.0.0.1:9999":     {network: "tcp4", address: "127.0.0.1:9999"},
		"ipv6@[::1]:9999":         {network: "tcp6", address: "[::1]:9999"},
		"fd@3":                    {},
		"unix@":                   {},
	} {
		got, err := newSocket(text)
		if want.text = text; want.network == "" {
			want = socket{}
		}
		if got != want || (err == nil) != (want != socket{}) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for host, want := range map[string]string{
		"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "172.17.0.1": "172.17.0.1",
	} {
		if got := clientHost(host); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
	if _, err := New(Config{Sockets: []string{"/s"}}); err == nil {
		t.Error("agent checks that are answered nowhere are no error")
	}
}

func TestServerState(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		state string
		alone bool
	}{
		{"UP 1/2; address=127.0.0.1; port=80; name=web/s1; node=lab1; weight=1/2; scur=0/0; qcur=0", false},
		{"UP; name=web/s1; weight=100/100; scur=0/0; qcur=0", true},
		{"UP; name=web/s1; weight=0/0", false},
		{"DOWN; name=web/s1; weight=100/100", false},
		{"NOLB 2/3; name=web/s1; weight=100/100", false},
		{"UP; weight=1/1", true},
		{"UP; name=web/s1; weight=one/one", false},
		{"UP; name=web/s1; weight=1/1;" + strings.Repeat(" ", 512), false},
		{"", false},
	} {
		if alone := isAlone(tc.state); alone != tc.alone {
			t.Errorf("%q: got %v", tc.state, alone)
		}
	}
}

func TestCheckedOverHTTP(t *testing.T) {
	t.Parallel()
	h, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	h.Checked("c1", "UP; name=web/s1; weight=1/1")
	if got := h.LastUp("c1"); got != "a backend of HAProxy, by its checks" {
		t.Errorf("got %q", got)
	}
	if got := h.LastUp("c2"); got != "" {
		t.Errorf("got %q of another", got)
	}
	h.Checked("c1", "UP; name=web/s1; weight=1/2")
	if got := h.LastUp("c1"); got != "" {
		t.Errorf("got %q when it is no more", got)
	}
	now := time.Now()
	for i := range maxHTTPChecks + 1 {
		h.httpChecks.note(strings.Repeat("x", i), true, now)
	}
	if len(h.httpChecks.lastUp) != maxHTTPChecks {
		t.Errorf("%d are kept, want %d", len(h.httpChecks.lastUp), maxHTTPChecks)
	}
	h.httpChecks.note("one more", true, now.Add(httpCheckMaxAge+1))
	if len(h.httpChecks.lastUp) != 1 {
		t.Errorf("%d are kept when all but one are long ago", len(h.httpChecks.lastUp))
	}
	h.httpChecks.note("x", true, now)
	if got := h.httpChecks.where("x", now.Add(httpCheckMaxAge+1)); got != "" {
		t.Errorf("got %q of a check long ago", got)
	}
}

// However the bytes are split, the answer is the text between two prompts.
func FuzzAnswer(f *testing.F) {
	f.Add("No such server.\n")
	f.Add("a\n> b")
	f.Add(">")
	f.Fuzz(func(t *testing.T, said string) {
		r := bufio.NewReaderSize(strings.NewReader(said+"\n> next\n> "), 16)
		var text bytes.Buffer
		if err := readAnswer(r, &text); err != nil {
			t.Fatal(err)
		}
		first := strings.TrimSpace(text.String())
		if !strings.Contains("\n"+said, "\n> ") && first != strings.TrimSpace(said) {
			t.Errorf("got %q of %q", first, said)
		}
	})
}
