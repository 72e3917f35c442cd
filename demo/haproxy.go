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

// haproxyConfig is all that HAProxy knows by itself: the backend has no server, as
// healthd adds each container as one of its name. What has been sent to a container
// that hangs, before anybody could know, is sent to another one after timeout server.
// Each container answers with the name that HAProxy has called it by.
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

// serverTimeout is after how long HAProxy takes a request to another container.
const serverTimeout = 500 * time.Millisecond

// haproxy is the private HAProxy and what it has shown of its servers.
type haproxy struct {
	address, socket string
	process         *process

	mu      sync.Mutex
	states  map[string]string // by server, the newest
	err     error             // why they could not be had
	changes []change
}

// change is what HAProxy began to show of a server.
type change struct {
	at            time.Time
	server, state string
}

// startHAProxy returns when HAProxy answers. Who starts it ends its process.
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
	if err := h.process.await(ctx, h.look); err != nil {
		h.process.end()
		return nil, err
	}
	return h, nil
}

// freeAddress returns the first of the addresses that nobody listens on.
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

// watch looks at what HAProxy shows until ctx ends.
func (h *haproxy) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = h.look(ctx) // shown tells of an error
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look takes in what HAProxy shows now.
func (h *haproxy) look(ctx context.Context) error {
	text, err := h.ask(ctx, "show stat web 4 -1")
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
			h.changes = append(h.changes, change{time.Now(), server, state})
		}
	}
	h.states = states
	return nil
}

// shown returns the states of the servers by name, or why they cannot be had.
func (h *haproxy) shown() (map[string]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, fmt.Errorf("cannot see what HAProxy shows: %w", h.err)
	}
	return h.states, nil // never changed
}

// up says that HAProxy sends requests to all of the servers.
func (h *haproxy) up(servers []string) bool {
	states, _ := h.shown()
	for _, server := range servers {
		if states[server] != "UP" {
			return false
		}
	}
	return true
}

// history returns what has been shown of one server.
func (h *haproxy) history(server string) []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []change
	for _, c := range h.changes {
		if c.server == server {
			all = append(all, c)
		}
	}
	return all
}

// ask sends a command to HAProxy's stats socket.
func (h *haproxy) ask(ctx context.Context, command string) (string, error) {
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

// readStates reads "show stat". That a server is up and gets nothing new shows only in
// its weight.
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
