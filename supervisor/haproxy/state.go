package haproxy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// process tells one HAProxy process from the next at the same socket.
type process struct{ pid, started string }

// readInfo reads what "show info" answers: which process that is, and how old.
func readInfo(text string) (p process, age time.Duration, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Pid":
			p.pid = value
		case "Start_time_sec":
			p.started = value
		case "Uptime_sec":
			age, err = time.ParseDuration(value + "s")
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
	adminMaint       = 0x01 // somebody has set it to maint
	adminConfigured  = 0x04 // the configuration says disabled, as of the slots of a server-template
	adminDrain       = 0x08 // somebody has set it to drain
	checkConfigured  = 0x02
	checkEnabled     = 0x04
	columnsOfServers = "be_id be_name srv_id srv_name srv_addr srv_admin_state srv_uweight srv_iweight srv_check_state " +
		"srv_agent_state srv_f_forced_id srv_port srv_agent_addr srv_agent_port"
	columnsOfStat = "svname status weight scur qcur act agent_health agent_rise"
)

// server is one server of a backend, as HAProxy shows it.
type server struct {
	backendID int
	id        int
	forcedID  bool // the ID was chosen
	name      string
	address   netip.Addr // invalid when it has none
	port      int
	admin     int // bits
	weight    int // as set by hand or by the agent
	initial   int // as configured: what weights are a share of
	check     int // bits
	agent     int // bits
	asks      agent

	status   string // "UP", "DOWN (agent)", "MAINT" …
	balanced int    // the weight that counts
	agentUp  bool
	active   bool // no backup
	sessions int  // under way, or waiting for their turn
}

// key is the server's name for commands, messages and maps.
func (s *server) key(backend string) string { return backend + "/" + s.name }

// takes says that new requests come to the server.
func (s *server) takes() bool {
	return s.active && s.balanced > 0 && (strings.HasPrefix(s.status, "UP") || s.status == "no check")
}

// free says that a slot is nobody's: it has no address.
func (s *server) free() bool { return !s.address.IsValid() || s.address.IsUnspecified() }

// held says that somebody has set the server aside by hand.
func (s *server) held() bool { return s.admin&(adminMaint|adminDrain) != 0 }

// readServers reads what "show servers state" answers, by backend.
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
			port: r.number("srv_port"), admin: r.number("srv_admin_state"), weight: r.number("srv_uweight"), initial: r.number("srv_iweight"),
			check: r.number("srv_check_state"), agent: r.number("srv_agent_state"),
			asks: agent{r.text("srv_agent_addr"), r.number("srv_agent_port")},
		}
		s.address, _ = netip.ParseAddr(r.text("srv_addr")) // "-" when it has none
		if r.err != nil {
			return nil, fmt.Errorf("show servers state: %w", r.err)
		}
		name := r.text("be_name")
		backends[name] = append(backends[name], s)
	}
	return backends, nil
}

// errMissing is that HAProxy shows a server in one table and not in the other.
var errMissing = errors.New("show stat: it lacks a server of show servers state")

// readStat adds to the servers of one backend what "show stat" answers of them. All of
// them must be there.
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
		if s == nil { // it came in between
			continue
		}
		delete(byName, name)
		s.status, s.active = row.text("status"), row.number("act") == 1
		s.balanced, s.sessions = row.number("weight"), row.number("scur")+row.number("qcur")
		if row.text("agent_rise") != "" { // there is an agent check
			s.agentUp = row.number("agent_health") >= row.number("agent_rise")
		}
		if row.err != nil {
			return fmt.Errorf("show stat: %w", row.err)
		}
	}
	if len(byName) > 0 {
		return errMissing
	}
	return nil
}

// columns finds the columns that are needed.
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

// row is one line of a table. The first thing that is wrong with it is its err.
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
	n, err := strconv.Atoi(text)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s is %q", column, clip(text))
	}
	return n
}

// unexpected is the error of an answer that is not understood.
func unexpected(command, answer string) error {
	return fmt.Errorf("%s: it answers %q", command, clip(answer))
}

// clip keeps what others write short.
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
