package haproxy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// process identifies an HAProxy process: after a restart, another one has the same socket.
type process struct{ pid, started string }

// readInfo parses the answer to "show info": the process and its age.
func readInfo(text string) (p process, age time.Duration, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
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
	adminMaint       = 0x01 // an operator set it to maint
	adminConfigured  = 0x04 // disabled in the configuration, as slots of a server-template are
	adminDrain       = 0x08 // an operator set it to drain
	checkConfigured  = 0x02
	checkEnabled     = 0x04
	columnsOfServers = "be_id be_name srv_id srv_name srv_addr srv_admin_state srv_uweight srv_iweight srv_check_state " +
		"srv_agent_state srv_f_forced_id srv_port srv_agent_addr srv_agent_port"
	columnsOfStat = "svname status weight scur qcur act agent_health agent_rise"
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

	status          string // "UP", "DOWN (agent)", "MAINT" …
	effectiveWeight int    // what the balancing uses
	agentUp         bool
	active          bool // false: a backup server
	sessions        int  // under way or queued
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

// readServers parses the answer to "show servers state", by backend.
func readServers(text string) (map[string][]*server, error) {
	version, table, _ := strings.Cut(text, "\n")
	header, rows, _ := strings.Cut(table, "\n")
	if version != "1" || !strings.HasPrefix(header, "# ") {
		return nil, unexpected("show servers state", text)
	}
	column, err := columns(strings.Fields(header[2:]), columnsOfServers)
	if err != nil {
		return nil, fmt.Errorf("show servers state: %w", err)
	}
	backends := map[string][]*server{}
	for line := range strings.Lines(rows) {
		r := row{fields: strings.Fields(line), column: column}
		if len(r.fields) == 0 {
			continue
		}
		s := &server{
			backendID: r.number("be_id"), id: r.number("srv_id"), forcedID: r.number("srv_f_forced_id") == 1, name: r.text("srv_name"),
			port: r.port("srv_port"), adminState: r.number("srv_admin_state"), weight: r.number("srv_uweight"), initialWeight: r.number("srv_iweight"),
			checkState: r.number("srv_check_state"), agentState: r.number("srv_agent_state"),
			agentAddress: agentAddress{r.text("srv_agent_addr"), r.port("srv_agent_port")},
		}
		s.address, _ = netip.ParseAddr(r.text("srv_addr")) // "-" when it has none
		if r.err != nil {
			return nil, fmt.Errorf("show servers state: %w", r.err)
		}
		name := r.text("be_name")
		if invalidCharacters(name+s.name) != "" { // no command can name it: it is one of HAProxy's own
			continue
		}
		backends[name] = append(backends[name], s)
	}
	return backends, nil
}

// errIncompleteStat says that "show stat" lacks a server of "show servers state".
var errIncompleteStat = errors.New("show stat: it lacks a server of show servers state")

// readStat parses the answer to "show stat" for one backend into its servers. It returns
// errIncompleteStat unless all of them are in it.
func readStat(text string, servers []*server) error {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# ")))
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil || !strings.HasPrefix(text, "# pxname,") {
		return unexpected("show stat", text)
	}
	column, err := columns(header, columnsOfStat)
	if err != nil {
		return fmt.Errorf("show stat: %w", err)
	}
	byName := make(map[string]*server, len(servers))
	for _, s := range servers {
		byName[s.name] = s
	}
	r.FieldsPerRecord = -1
	for {
		fields, err := r.Read()
		if fields == nil {
			break
		}
		row := row{fields: fields, column: column, err: err}
		name := row.text("svname")
		s := byName[name]
		if s == nil { // it was added in between
			continue
		}
		delete(byName, name)
		s.status, s.active = row.text("status"), row.number("act") == 1
		s.effectiveWeight, s.sessions = row.number("weight"), row.number("scur")+row.number("qcur")
		if row.text("agent_rise") != "" { // there is an agent check
			s.agentUp = row.number("agent_health") >= row.number("agent_rise")
		}
		if row.err != nil {
			return fmt.Errorf("show stat: %w", row.err)
		}
	}
	if len(byName) > 0 {
		return errIncompleteStat
	}
	return nil
}

// columns returns the index of each column, and an error when a needed one is missing.
func columns(header []string, needed string) (map[string]int, error) {
	column := make(map[string]int, len(header))
	for i, name := range header {
		column[name] = i
	}
	for _, name := range strings.Fields(needed) {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("there is no column %s", name)
		}
	}
	return column, nil
}

// row is one line of a table. err is the first error in reading it.
type row struct {
	fields []string
	column map[string]int
	err    error
}

func (r *row) text(column string) string {
	if i := r.column[column]; i < len(r.fields) {
		return r.fields[i]
	}
	if r.err == nil {
		r.err = fmt.Errorf("a line of %d columns", len(r.fields))
	}
	return ""
}

func (r *row) number(column string) int {
	text := r.text(column)
	if text == "" || text == "-" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31) // so that a sum of two, too, is a number
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s is %q", column, clip(text))
	}
	return int(n)
}

func (r *row) port(column string) int {
	n := r.number(column)
	if n > math.MaxUint16 && r.err == nil {
		r.err = fmt.Errorf("column %s is %d", column, n)
	}
	return n
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
