package haproxy

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const (
	infoText = "Name: HAProxy\nVersion: 3.0.11\nNbproc: 1\nPid: 8\nUptime: 0d 0h01m07s\nUptime_sec: 67\nStart_time_sec: 1767323045\n"
	// A slot with a container, a free one, a server of the configuration with a container's name, one
	// that healthd added and an operator drains, and one that healthd was adding.
	mixedServers = "1\n" + serversHeader +
		"3 web 1 s1 10.0.0.2 2 0 100 100 9 6 3 4 6 14 0 0 - 8080 - 0 0 - 127.0.0.1 18647\n" +
		"3 web 2 s2 0.0.0.0 0 5 100 100 9 1 0 0 14 14 0 0 - 0 - 0 0 - 127.0.0.1 18647\n" +
		"3 web 3 c2 10.0.0.9 2 0 100 100 9 6 3 4 6 14 0 0 - 8080 - 0 0 - 127.0.0.1 18647\n" +
		"3 web 864600001 gone 10.0.0.3 2 8 100 100 9 6 3 4 6 14 0 1 - 8080 - 0 0 - 127.0.0.1 18647\n" +
		"3 web 864600002 c3 fd00::2 0 1 0 100 9 1 0 0 2 2 0 1 - 8080 - 0 0 - 127.0.0.1 18647\n\n"
	mixedStat = "# pxname,svname,scur,qcur,status,weight,act,agent_health,agent_rise,check_status,\n" +
		"web,s1,3,0,UP,100,1,1,1,L4OK,\nweb,s2,0,0,MAINT,100,1,0,1,L4OK,\nweb,c2,0,0,DOWN (agent),100,1,0,1,L4OK,\n" +
		"web,gone,0,0,DRAIN,0,1,1,1,L4OK,\nweb,c3,0,0,MAINT,0,1,0,1,L4OK,\n"
)

// Whatever HAProxy answers, healthd takes it for what HAProxy can mean or for an error, and sends
// commands that concern the servers of its own containers only.
func FuzzRead(f *testing.F) {
	slots := strings.NewReplacer("6 14 0 0 -", "14 14 0 0 -", " 2 0 100 100", " 2 4 100 100").Replace(mixedServers)
	busy := strings.NewReplacer("864600001 gone 10.0.0.3 2 8", "864600001 gone 10.0.0.3 2 0").Replace(mixedServers)
	foreign := strings.NewReplacer("864600001", "7", " 0 1 - 8080", " 0 0 - 8080").Replace(busy)
	for _, state := range []uint16{0, 0x222, 0x111, 0x024, 0x8282} {
		for _, known := range []uint16{0, 0x1000, 0x2000, 0x4000, 0x7000, 0x8000, 0xC000} {
			f.Add(infoText, serversText, statText, state|known)
			for _, text := range []string{mixedServers, slots, busy, foreign} {
				f.Add(infoText, text, strings.Replace(mixedStat, "gone,0,0", "gone,1,0", 1), state|known)
			}
		}
	}
	f.Add("Pid: 1\nUptime_sec: -5\n", "1\n"+serversHeader, "# pxname,svname\n\"", uint16(0))
	f.Add("Pid: 1\nUptime_sec: 1h5\n", strings.Replace(serversText, "c1", "c1;quit", 1), statText, uint16(0xFFFF))
	f.Add("", strings.Replace(serversText, "18001", "65616", 1), statText, uint16(0xFFFF))
	f.Add("", serversText, strings.Replace(statText, ",1,2,", ",9223372036854775807,2,", 1), uint16(0x8000))
	f.Fuzz(func(t *testing.T, info, servers, stat string, state uint16) {
		p, age, err := readInfo(info)
		if err == nil && (p.pid == "" || strings.Contains(p.pid+p.started, "\n") || age < 0) {
			t.Errorf("got %+v of age %v", p, age)
		}
		backends, err := readServers(servers)
		if err != nil {
			return
		}
		for name, all := range backends {
			checkServers(t, name, all)
			if _, err := readStat(stat, all); err != nil {
				continue
			}
			for _, s := range all {
				if s.sessions < 0 || s.effectiveWeight < 0 || s.takesTraffic() && s.effectiveWeight == 0 {
					t.Errorf("%s: %+v", s.name, s)
				}
			}
			checkPlan(t, name, all, state)
			checkWatched(t, name, all, state)
		}
	})
}

// checkServers checks that the numbers are within the bounds, that commands can name the servers, and
// that they are read as before when HAProxy shows them again.
func checkServers(t *testing.T, backend string, all []*server) {
	t.Helper()
	var b strings.Builder
	b.WriteString("1\n" + serversHeader)
	for _, s := range all {
		if slices.Min([]int{s.backendID, s.id, s.port, s.adminState, s.weight, s.initialWeight, s.checkState, s.agentState, s.agentAddress.port}) < 0 ||
			max(s.port, s.agentAddress.port) > math.MaxUint16 || s.name == "" || invalidCharacters(backend+s.name) != "" {
			t.Errorf("backend %q: %+v", backend, s)
		}
		address, forced := "-", 0
		if s.address.IsValid() {
			address = s.address.String()
		}
		if s.forcedID {
			forced = 1
		}
		fmt.Fprintf(&b, "%d %s %d %s %s 0 %d %d %d 0 0 0 0 %d %d 0 %d %s %d - %d %d - %s %d\n", s.backendID, backend, s.id, s.name, address,
			s.adminState, s.weight, s.initialWeight, s.checkState, s.agentState, forced, cmp.Or(s.resolved, "-"), s.port,
			map[bool]int{true: 1}[s.tls], s.checkPort, s.agentAddress.host, s.agentAddress.port)
	}
	again, err := readServers(b.String())
	if err != nil || !slices.EqualFunc(again[backend], all, func(a, b *server) bool { return *a == *b }) {
		t.Errorf("%q is read as %v, %v", b.String(), again, err)
	}
}

// membersFor returns three members, as the bits of state say.
func membersFor(state uint16) []member {
	all := []member{
		{id: "1", name: "c1", agentName: "c1", address: netip.MustParseAddr("127.0.0.1"), port: 18001},
		{id: "2", name: "c2", agentName: "web/c2", address: netip.MustParseAddr("10.0.0.2"), port: 8080},
		{id: "3", name: "c3", agentName: "web/c3", address: netip.MustParseAddr("fd00::2"), port: 8080},
	}
	for i := range all {
		bits := state >> (4 * i)
		all[i].want = want(bits & 3 % 3)
		if bits&4 != 0 {
			all[i].address = netip.Addr{}
		}
		if bits&8 != 0 {
			all[i].invalid = "it cannot be one"
		}
	}
	return all
}

// planFor is a plan of a daemon that knows of earlier polls what the bits of state say.
func planFor(backend string, all []*server, members []member, state uint16) *plan {
	p := &plan{
		backend: backend, servers: all, agent: agentAddress{"127.0.0.1", 18647}, complete: state&0x8000 != 0, gone: func(string) bool { return false }, slots: map[string]string{},
		agentSend: map[string]string{}, newAgentSend: map[string]string{}, wasSetAside: map[string]bool{}, owners: map[string]string{},
		ownerOf: func(netip.Addr) string { return "" },
	}
	for i, s := range all {
		if state&0x4000 != 0 && i == 0 {
			p.slots[members[0].name] = s.name
		}
		if state&0x1000 != 0 {
			p.slots[members[i%len(members)].name] = s.name
			p.owners[s.name] = members[(i+1)%len(members)].id
		}
		if state&0x2000 != 0 {
			p.wasSetAside[s.name] = s.setAside()
			p.agentSend[s.name] = "c1"
		}
	}
	return p
}

func checkPlan(t *testing.T, backend string, all []*server, state uint16) {
	t.Helper()
	members := membersFor(state)
	p, again := planFor(backend, all, members, state), planFor(backend, all, members, state)
	p.compute(members)
	again.compute(members)
	if !slices.EqualFunc(p.commands, again.commands, func(a, b command) bool { return a.text == b.text }) {
		t.Errorf("the same answer gives %v, and then %v", p.commands, again.commands)
	}
	byName, given := map[string]*server{}, map[*server]string{}
	for _, s := range all {
		byName[s.name] = s
	}
	for name, s := range p.server {
		if given[s] != "" {
			t.Errorf("server %s is that of %s and of %s", s.name, given[s], name)
		}
		given[s] = name
	}
	for _, c := range p.commands {
		if len(byName) < len(all) { // HAProxy has no two servers of a name: which one is meant is not known
			break
		}
		if err := checkCommand(p, members, byName, given, c.text); err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// checkWatched checks that a change of readiness has the same commands, whether its server is looked at by itself or all
// are planned.
func checkWatched(t *testing.T, backend string, all []*server, state uint16) {
	t.Helper()
	members := membersFor(state)
	p := planFor(backend, all, members, state)
	p.compute(members)
	for i := range members {
		s := p.server[members[i].name]
		for w := range wantUp + 1 {
			members := membersFor(state)
			members[i].want = w
			single, whole := planFor(backend, all, members, state), planFor(backend, all, members, state)
			if s == nil || !slices.Contains(all, s) || !single.followsReadiness(s, &members[i]) {
				continue
			}
			single.applyWant(s, &members[i])
			whole.compute(members)
			own := slices.DeleteFunc(whole.commands, func(c command) bool { return c.subject != s.key(backend) })
			if !slices.EqualFunc(single.commands, own, func(a, b command) bool { return a.text == b.text }) || len(single.problems) > 0 {
				t.Errorf("%+v alone gets %v, %v, and among others %v", members[i], single.commands, single.problems, own)
			}
		}
	}
}

// checkCommand returns what is wrong with a command of a plan.
func checkCommand(p *plan, members []member, byName map[string]*server, given map[*server]string, text string) error {
	if strings.Trim(text, nameCharacters+" /,%[]") != "" || strings.ContainsAny(text, "\n;") {
		return fmt.Errorf("it is not one command")
	}
	words := strings.Fields(text)
	verb, name := strings.Join(words[:2], " "), strings.TrimPrefix(words[2], p.backend+"/")
	s := byName[name]
	rest := strings.Join(words[3:], " ")
	if verb == "add server" || s == nil {
		return checkAdded(p, members, byName, name, verb, rest)
	}
	// What is healthd's is said here once more: an error there must not make the check blind.
	added := s.forcedID && s.id >= 864_600_000 && s.id <= 864_699_999 && s.agentAddress == p.agent
	slot := s.adminState&adminConfigured != 0 && s.agentState&checkConfigured != 0 && s.agentAddress == p.agent
	own, owner := added || slot, slices.IndexFunc(members, func(m member) bool { return m.name == given[s] })
	switch {
	case owner < 0 && !(p.complete && own):
		return fmt.Errorf("it is no container's")
	case owner >= 0 && (members[owner].invalid != "" || verb == "del server"):
		return fmt.Errorf("its container %+v", members[owner])
	case verb == "del server" && (!added || s.sessions > 0):
		return fmt.Errorf("it is configured, or has requests: %+v", s)
	case owner < 0 && (added || !s.free()) && s.setAside() && !p.incomplete(s):
		return fmt.Errorf("an operator has set it aside: %+v", s)
	}
	switch address, isAddress := strings.CutPrefix(rest, "addr "); {
	case isAddress && owner < 0:
		if address != "0.0.0.0 port 0" || !slot {
			return fmt.Errorf("nobody is there")
		}
	case isAddress:
		if m := members[owner]; !own && s.resolved != "" || !m.reachable() || address != fmt.Sprintf("%s port %d", m.address, m.port) {
			return fmt.Errorf("its container is %+v", m)
		}
	case strings.HasPrefix(rest, "agent-send ") && !own && s.resolved != "":
	case strings.HasPrefix(rest, "state "), strings.HasPrefix(rest, "agent-send "), verb != "set server":
		if !own || owner >= 0 && rest == "state maint" || rest == "state ready" && s.setAside() && !p.incomplete(s) && !(slot && s.free()) {
			return fmt.Errorf("it is another's state: %+v", s)
		}
	case !slices.Contains([]string{"agent up", "agent down", "weight 0%", "weight 100%"}, rest):
		return fmt.Errorf("an unknown command")
	case rest == "agent up" && !own && !p.leadsTo(s, &members[owner]):
		return fmt.Errorf("it leads elsewhere: %+v", s)
	case rest == "agent up" && members[owner].want != wantUp:
		return fmt.Errorf("its container is to get nothing")
	}
	return nil
}

// checkAdded is checkCommand for a server that the plan adds.
func checkAdded(p *plan, members []member, byName map[string]*server, name, verb, rest string) error {
	i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
	if i < 0 || byName[name] != nil && verb == "add server" && !p.isSlot(byName[name]) || !members[i].reachable() || members[i].invalid != "" {
		return fmt.Errorf("it is no new container's")
	}
	if slices.ContainsFunc(p.servers, p.isSlot) {
		return fmt.Errorf("the backend has slots")
	}
	added := p.server[name]
	if added == nil || added.id < firstID || added.id > lastID || slices.ContainsFunc(p.servers, func(s *server) bool { return s.id == added.id }) {
		return fmt.Errorf("it is %+v", added)
	}
	if verb == "add server" && !strings.HasPrefix(rest, netip.AddrPortFrom(members[i].address, uint16(members[i].port)).String()+" ") {
		return fmt.Errorf("its container is %+v", members[i])
	}
	if rest == "agent up" || rest == "weight 100%" {
		return fmt.Errorf("it is not shown yet")
	}
	return nil
}
