package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// haproxyConfig has a backend without servers: healthd adds a server for each container.
// HAProxy retries requests that had already gone to the hung container, after timeout
// server. Each container answers with the name that HAProxy sends in a header.
const haproxyConfig = `global
    stats socket %s mode 600 level admin

defaults
    mode http
    timeout connect 1s
    timeout client 10s
    timeout server %dms
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response response-timeout

frontend www
    bind %s
    http-request disable-l7-retry unless METH_GET
    http-request set-path /echo
    http-request del-header user-agent
    http-request del-header accept
    http-response set-header Retries %%rc
    default_backend web

backend web
    balance roundrobin
    http-send-name-header Answered-By
`

const haproxySocket = "haproxy.sock" // in the demo's directory

// serverTimeout is how long HAProxy waits for an answer before it tries another container.
const serverTimeout = 500 * time.Millisecond

// haproxy is the private HAProxy and the states that its servers had.
type haproxy struct {
	address, socket string
	process         *process

	mu      sync.Mutex
	states  map[string]string // by server, the newest
	err     error             // why they could not be had
	changes []stateChange
}

// stateChange is a new state of a server.
type stateChange struct {
	at            time.Time
	server, state string
}

// startHAProxy returns when HAProxy answers. The caller must kill its process.
func startHAProxy(ctx context.Context, dir string) (*haproxy, error) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy" // not on everybody's PATH
	}
	address, err := freeAddress("127.0.0.1:8000", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &haproxy{address: address, socket: filepath.Join(dir, haproxySocket), states: map[string]string{}}
	file := filepath.Join(dir, "haproxy.cfg")
	text := fmt.Sprintf(haproxyConfig, h.socket, serverTimeout.Milliseconds(), address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if h.process, err = startProcess("haproxy", filepath.Join(dir, "haproxy.log"), program, "-db", "-f", file); err != nil {
		return nil, err
	}
	if err := h.process.waitReady(ctx, h.poll); err != nil {
		h.process.kill()
		return nil, err
	}
	return h, nil
}

// freeAddress returns the first candidate on which nothing listens.
func freeAddress(candidates ...string) (address string, err error) {
	for _, candidate := range candidates {
		l, listenErr := net.Listen("tcp", candidate)
		if err = listenErr; err == nil {
			address = l.Addr().String()
			return address, l.Close()
		}
	}
	return "", err
}

// watch polls the servers' states until ctx ends.
func (h *haproxy) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = h.poll(ctx) // shown tells of an error
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll reads the servers' states once.
func (h *haproxy) poll(ctx context.Context) error {
	text, err := h.query(ctx, "show stat web 4 -1")
	states := map[string]string{}
	if err == nil {
		states, err = readStates(text)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; err != nil {
		return err
	}
	for server, state := range states {
		if state != h.states[server] {
			h.changes = append(h.changes, stateChange{time.Now(), server, state})
		}
	}
	h.states = states
	return nil
}

// serverStates returns the servers' states by name, or the error of the last poll.
func (h *haproxy) serverStates() (map[string]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, fmt.Errorf("cannot see what HAProxy shows: %w", h.err)
	}
	return h.states, nil // never changed
}

// up says that all of the servers take traffic.
func (h *haproxy) up(servers []string) bool {
	states, _ := h.serverStates()
	for _, server := range servers {
		if states[server] != "UP" {
			return false
		}
	}
	return true
}

// statesOf returns the changes of a server's state.
func (h *haproxy) statesOf(server string) []stateChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []stateChange
	for _, c := range h.changes {
		if c.server == server {
			all = append(all, c)
		}
	}
	return all
}

// query sends a command to HAProxy's stats socket.
func (h *haproxy) query(ctx context.Context, command string) (string, error) {
	const patience = 5 * time.Second
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", h.socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// readStates parses the answer to "show stat". A draining server is UP with the weight 0.
func readStates(text string) (map[string]string, error) {
	table, ok := strings.CutPrefix(text, "# ")
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if !ok || err != nil || len(rows) == 0 {
		return nil, errors.Join(fmt.Errorf("it answers %q", text), err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	states := map[string]string{}
	for _, row := range rows[1:] {
		state := row[column["status"]]
		if state == "UP" && row[column["weight"]] == "0" {
			state = "UP 0%"
		}
		states[row[column["svname"]]] = state
	}
	return states, nil
}
