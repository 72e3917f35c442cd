package haproxy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The needed columns of "show servers state", in the order of neededOfServers.
const (
	colBackendID = iota
	colBackend
	colID
	colName
	colAddress
	colAdminState
	colWeight
	colInitialWeight
	colCheckState
	colAgentState
	colForcedID
	colPort
	colAgentAddress
	colAgentPort
	colTLS
	colCheckPort
	colResolved
	colCheckAddress
)

// The needed columns of "show stat", in the order of neededOfStat.
const (
	colServer = iota
	colStatus
	colEffectiveWeight
	colSessions
	colQueue
	colActive
	colAgentHealth
	colAgentRise
	colCheckStatus
	colMaxConn // from here on, what other versions of HAProxy need not show
	colMaxQueue
	colRise
	colFall
	colIdleMost
	colCookie
)

var (
	neededOfServers = strings.Fields("be_id be_name srv_id srv_name srv_addr srv_admin_state srv_uweight srv_iweight srv_check_state " +
		"srv_agent_state srv_f_forced_id srv_port srv_agent_addr srv_agent_port srv_use_ssl srv_check_port srv_fqdn srv_check_addr")
	neededOfStat = strings.Fields("svname status weight scur qcur act agent_health agent_rise check_status " +
		"slim qlimit check_rise check_fall src_ilim cookie")
)

const neededColumns = 18

// columns says where a table has the needed columns.
type columns struct {
	needed []string
	of     []int // the index in needed of each column of the table; -1: it is not needed
}

// newColumns returns an error when one of the first most needed columns is missing. A value that is not there is empty.
func newColumns(header, needed []string, most int) (columns, error) {
	c := columns{needed, make([]int, len(header))}
	for i, name := range header {
		c.of[i] = slices.Index(needed, name)
	}
	for n, name := range needed[:most] {
		if !slices.Contains(c.of, n) {
			return c, fmt.Errorf("there is no column %s", name)
		}
	}
	for len(c.of) > 0 && c.of[len(c.of)-1] < 0 {
		c.of = c.of[:len(c.of)-1]
	}
	return c, nil
}

// row is the needed columns of one line. Its fields are parts of the table's text. err is the first error in
// reading them.
type row struct {
	columns
	fields [neededColumns]string
	err    error
}

// readSpaced reads a line whose columns are separated by spaces, and says whether it has any.
func (r *row) readSpaced(line string) bool {
	n := 0
	for line = strings.TrimSpace(line); line != "" && n < len(r.of); n++ {
		var field string
		field, line, _ = strings.Cut(line, " ")
		if at := r.of[n]; at >= 0 {
			r.fields[at] = field
		}
		line = strings.TrimLeft(line, " ")
	}
	r.expect(n)
	return n > 0
}

// readCommas reads the next line of a table in CSV, and returns the text after it. Lines without quotes, which
// are nearly all, are read without package csv: it takes three times as long.
func (r *row) readCommas(text string) (rest string) {
	line, rest, _ := strings.Cut(text, "\n")
	if strings.IndexByte(line, '"') >= 0 {
		return r.readQuoted(text)
	}
	n := 0
	for more := true; more && n < len(r.of); n++ {
		var field string
		field, line, more = strings.Cut(line, ",")
		if at := r.of[n]; at >= 0 {
			r.fields[at] = strings.TrimSuffix(field, "\r")
		}
	}
	r.expect(n)
	return rest
}

func (r *row) readQuoted(text string) (rest string) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	fields, err := reader.Read()
	if err != nil {
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			err = parse.Err
		}
		r.fail(err)
		return ""
	}
	for n, at := range r.of[:min(len(fields), len(r.of))] {
		if at >= 0 {
			r.fields[at] = fields[n]
		}
	}
	r.expect(min(len(fields), len(r.of)))
	return text[reader.InputOffset():]
}

// expect notes an error when a line has only so many of the columns up to the last needed one.
func (r *row) expect(n int) {
	if n < len(r.of) {
		r.fail(fmt.Errorf("a line of %d columns", n))
	}
}

func (r *row) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *row) number(column int) int {
	text := r.fields[column]
	if text == "" || text == "-" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31) // so that a sum of two, too, is a number
	if err != nil {
		r.fail(fmt.Errorf("column %s is %q", r.needed[column], clip(text)))
	}
	return int(n)
}

func (r *row) port(column int) int {
	n := r.number(column)
	if n > math.MaxUint16 {
		r.fail(fmt.Errorf("column %s is %d", r.needed[column], n))
	}
	return n
}
