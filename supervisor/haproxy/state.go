package haproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// process identifies an HAProxy process: after a restart, another one has the same socket.
type process struct{ pid, started, version, node string }

// readInfo parses the answer to "show info": the process and its age.
func readInfo(text string) (p process, age time.Duration, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Version":
			p.version = value
		case "Node":
			p.node = value
		case "Pid":
			p.pid = value
		case "Start_time_sec":
			p.started = value
		case "Uptime_sec":
			var seconds uint64
			seconds, err = strconv.ParseUint(value, 10, 32)
			age = time.Duration(seconds) * time.Second
		}
	}
	if p.pid == "" || err != nil {
		return process{}, 0, unexpected("show info", text)
	}
	return p, age, nil
}

// Bits of srv_admin_state, and of srv_check_state and srv_agent_state. (HAProxy's
// management guide, "show servers state"; include/haproxy/check-t.h)
const (
	adminMaint      = 0x01 // an operator set it to maint
	adminConfigured = 0x04 // disabled in the configuration, as slots of a server-template are
	adminDrain      = 0x08 // an operator set it to drain
	checkConfigured = 0x02
	checkEnabled    = 0x04
)

// server is one server of a backend, as HAProxy shows it.
type server struct {
	backendID     int
	id            int
	forcedID      bool // the ID was given, by "id" in the configuration or in "add server"
	name          string
	address       netip.Addr // invalid when it has none
	port          int
	adminState    int // bits
	weight        int // as set by an operator or the agent
	initialWeight int // as configured; "weight 100%" sets this one
	checkState    int // bits
	agentState    int // bits
	agentAddress  agentAddress
	tls           bool       // requests go over TLS
	checkPort     int        // of HAProxy's own check; 0: as port
	checkAddress  netip.Addr // of that check; invalid: as address
	resolved      string     // the name by which HAProxy finds the address; empty: it was given

	status          string // "UP", "DOWN (agent)", "MAINT" …
	checkStatus     string // of HAProxy's own check: "L4OK", "L7STS", "L6RSP" …; empty: it has none
	effectiveWeight int    // what the balancing uses
	agentUp         bool
	active          bool // false: a backup server
	sessions        int  // under way or queued

	maxConn, maxQueue int  // 0: no bound
	rise, fall        int  // of HAProxy's own check; 0: it has none
	idleMost          int  // connections that are kept for reuse; -1: no bound
	cookie            bool // clients stick to it by a cookie
}

// key is the server's name for commands, messages and maps.
func (s *server) key(backend string) string { return backend + "/" + s.name }

// takesTraffic says that new requests go to the server.
func (s *server) takesTraffic() bool {
	return s.active && s.effectiveWeight > 0 && (strings.HasPrefix(s.status, "UP") || s.status == "no check")
}

// free says that a slot has no address, so no container.
func (s *server) free() bool { return !s.address.IsValid() || s.address.IsUnspecified() }

// setAside says that an operator set the server to drain or maint.
func (s *server) setAside() bool { return s.adminState&(adminMaint|adminDrain) != 0 }

// readServers parses the answer to "show servers state", by backend. The texts of a server are parts of the answer.
func readServers(text string) (map[string][]*server, error) {
	version, table, _ := strings.Cut(text, "\n")
	header, rows, _ := strings.Cut(table, "\n")
	if version != "1" || !strings.HasPrefix(header, "# ") {
		return nil, unexpected("show servers state", text)
	}
	columns, err := newColumns(strings.Fields(header[2:]), neededOfServers, len(neededOfServers))
	if err != nil {
		return nil, fmt.Errorf("show servers state: %w", err)
	}
	backends := map[string][]*server{}
	all := make([]server, 0, strings.Count(rows, "\n")+1)
	for line := range strings.Lines(rows) {
		r := row{columns: columns}
		if !r.readSpaced(line) {
			continue
		}
		s := readServer(&r)
		if r.err != nil {
			return nil, fmt.Errorf("show servers state: %w", r.err)
		}
		name := r.fields[colBackend]
		if invalidCharacters(name) != "" || invalidCharacters(s.name) != "" { // no command can name it: it is one of HAProxy's own
			continue
		}
		all = append(all, s)
		backends[name] = append(backends[name], &all[len(all)-1])
	}
	return backends, nil
}

func readServer(r *row) server {
	s := server{
		backendID: r.number(colBackendID), id: r.number(colID), forcedID: r.number(colForcedID) == 1, name: r.fields[colName],
		port: r.port(colPort), adminState: r.number(colAdminState), weight: r.number(colWeight), initialWeight: r.number(colInitialWeight),
		checkState: r.number(colCheckState), agentState: r.number(colAgentState),
		agentAddress: agentAddress{r.fields[colAgentAddress], r.port(colAgentPort)},
		tls:          r.number(colTLS) != 0, checkPort: r.port(colCheckPort),
	}
	s.address, _ = netip.ParseAddr(r.fields[colAddress]) // "-" when it has none
	s.checkAddress, _ = netip.ParseAddr(r.fields[colCheckAddress])
	if name := r.fields[colResolved]; name != "-" {
		s.resolved = name
	}
	return s
}

// errIncompleteStat says that "show stat" lacks a server of "show servers state".
var errIncompleteStat = errors.New("show stat: it lacks a server of show servers state")

// readStat parses the answer to "show stat" for one backend into its servers. It returns
// errIncompleteStat unless all of them are in it. cookie says that the backend has clients stick to servers by a cookie.
func readStat(text string, servers []*server) (cookie bool, err error) {
	header, rows, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(header, "# pxname,") {
		return false, unexpected("show stat", text)
	}
	columns, err := newColumns(strings.Split(strings.TrimSuffix(header[2:], "\r"), ","), neededOfStat, colMaxConn)
	if err != nil {
		return false, fmt.Errorf("show stat: %w", err)
	}
	find := newFinder(servers)
	for rows != "" {
		if rows[0] == '\n' || rows[0] == '\r' {
			rows = rows[1:]
			continue
		}
		r := row{columns: columns}
		if rows = r.readCommas(rows); r.err == nil {
			if s := find.take(r.fields[colServer]); s != nil { // else it was added in between
				readServerStat(&r, s)
			} else if r.fields[colServer] == "BACKEND" {
				cookie = r.fields[colCookie] != ""
			}
		}
		if r.err != nil {
			return false, fmt.Errorf("show stat: %w", r.err)
		}
	}
	if find.left > 0 {
		return cookie, errIncompleteStat
	}
	return cookie, nil
}

func readServerStat(r *row, s *server) {
	s.status, s.checkStatus, s.active = r.fields[colStatus], r.fields[colCheckStatus], r.number(colActive) == 1
	s.effectiveWeight, s.sessions = r.number(colEffectiveWeight), r.number(colSessions)+r.number(colQueue)
	if r.fields[colAgentRise] != "" { // there is an agent check
		s.agentUp = r.number(colAgentHealth) >= r.number(colAgentRise)
	}
	s.maxConn, s.maxQueue, s.rise, s.fall = r.number(colMaxConn), r.number(colMaxQueue), r.number(colRise), r.number(colFall)
	s.cookie, s.idleMost = r.fields[colCookie] != "", -1
	if r.fields[colIdleMost] != "" {
		s.idleMost = r.number(colIdleMost)
	}
}

// finder finds each of some servers once, by name. HAProxy shows them in the same order in both tables.
type finder struct {
	servers []*server
	next    int
	left    int
	byName  map[string]*server // those from next on; nil: the order has been the same so far
}

func newFinder(servers []*server) *finder { return &finder{servers: servers, left: len(servers)} }

func (f *finder) take(name string) *server {
	if f.byName == nil && f.next < len(f.servers) && f.servers[f.next].name == name {
		f.next, f.left = f.next+1, f.left-1
		return f.servers[f.next-1]
	}
	if f.byName == nil {
		f.byName = make(map[string]*server, f.left)
		for _, s := range f.servers[f.next:] {
			f.byName[s.name] = s
		}
		f.left = len(f.byName)
	}
	s := f.byName[name]
	if s != nil {
		delete(f.byName, name)
		f.left--
	}
	return s
}

// unexpected is the error for an answer that cannot be parsed.
func unexpected(command, answer string) error {
	return fmt.Errorf("%s: it answers %q", command, clip(answer))
}

// clip returns the first line of text, at most 200 bytes.
func clip(text string) string {
	const most = 200
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > most {
		line, rest = strings.ToValidUTF8(line[:most], ""), "more"
	}
	if rest != "" {
		line += " …"
	}
	return line
}
