package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// balancer is a real HAProxy that has backends and no traffic.
type balancer struct {
	r      *rig
	p      *process // nil: it does not run
	socket string
	log    *stateLog
}

// newBalancer returns one that does not run yet, and gives healthd an address for its agent checks.
func (r *rig) newBalancer(backends int) (*balancer, error) {
	b := &balancer{r: r, socket: r.path("haproxy.sock")}
	var err error
	if r.agent, err = freeAddress(); err != nil {
		return b, err
	}
	if b.log, err = newStateLog(r.path("haproxy.log")); err != nil {
		return b, err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global\n  stats socket %s level admin\n  log %s format raw local0\n"+
		"defaults\n  mode http\n  log global\n  timeout connect 1s\n  timeout client 10s\n  timeout server 10s\n", b.socket, r.path("haproxy.log"))
	for n := range backends {
		fmt.Fprintf(&config, "backend kind-%d\n  balance roundrobin\n", n)
	}
	return b, os.WriteFile(r.path("haproxy.cfg"), []byte(config.String()), 0o600)
}

func (b *balancer) start() error {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy" // not on everybody's PATH
	}
	said, err := os.Create(b.r.path("haproxy.out"))
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.Command(path, "-db", "-f", b.r.path("haproxy.cfg"))
	cmd.Stdout, cmd.Stderr = said, said
	if b.p, err = start(cmd); err != nil {
		return fmt.Errorf("cannot start haproxy (install it with scripts/prerequisites test): %w", err)
	}
	return nil
}

// end kills it, as a crash would.
func (b *balancer) end() error {
	if b.p == nil {
		return nil
	}
	err := b.p.Process.Kill()
	<-b.p.ended
	b.p = nil
	return err
}

func (b *balancer) close() error {
	err := b.end()
	if b.log != nil {
		err = errors.Join(err, b.log.close())
	}
	return err
}

// ask sends one command and returns the answer.
func (b *balancer) ask(command string) (string, error) {
	if b.p == nil {
		return "", errors.New("HAProxy does not run")
	}
	select {
	case <-b.p.ended:
		err := b.p.err
		b.p = nil
		return "", errTail(fmt.Errorf("HAProxy has ended: %w", err), b.r.path("haproxy.out"))
	default:
	}
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// expectUp returns nil when so many servers are up, by the sums that HAProxy itself has: it need not show them all.
func (b *balancer) expectUp(want int) error {
	answer, err := b.ask("show stat -1 2 -1")
	if err != nil {
		return err
	}
	header, rows, _ := strings.Cut(answer, "\n")
	column := -1
	for i, name := range strings.Split(header, ",") {
		if name == "act" {
			column = i
		}
	}
	up := 0
	for line := range strings.Lines(rows) {
		if fields := strings.Split(line, ","); column >= 0 && len(fields) > column {
			n, _ := strconv.Atoi(fields[column])
			up += n
		}
	}
	if up != want {
		return fmt.Errorf("%d servers are up, want %d", up, want)
	}
	return nil
}

// commands is how many commands healthd has sent.
func (b *balancer) commands() (float64, error) {
	var metrics string
	if err := b.r.get(b.r.control, "/metrics", &metrics); err != nil {
		return 0, err
	}
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, "healthd_haproxy_commands_total{"); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		}
	}
	return 0, errors.New("healthd counts no commands to HAProxy")
}

// stateLog has what HAProxy logs of its servers: a line at each change, at the moment of it. To read that costs
// HAProxy nothing, as asking would.
type stateLog struct {
	conn   *net.UnixConn
	reader sync.WaitGroup
	mu     sync.Mutex
	states map[string][]serverState // by server
}

type serverState struct {
	at    time.Time
	state string // UP, DOWN
}

func newStateLog(path string) (*stateLog, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	l := &stateLog{conn: conn, states: map[string][]serverState{}}
	l.reader.Go(l.read)
	return l, nil
}

func (l *stateLog) close() error {
	defer l.reader.Wait()
	return l.conn.Close()
}

// read takes lines such as "Server kind-3/bench-53 is DOWN, reason: …", until the log is closed.
func (l *stateLog) read() {
	buf := make([]byte, 4096)
	for {
		n, err := l.conn.Read(buf)
		if err != nil {
			return
		}
		at := time.Now()
		_, rest, ok := bytes.Cut(buf[:n], []byte("Server "))
		server, rest, is := bytes.Cut(rest, []byte(" is "))
		_, name, _ := bytes.Cut(server, []byte("/"))
		if !ok || !is {
			continue
		}
		for _, state := range []string{"UP", "DOWN"} {
			if bytes.HasPrefix(rest, []byte(state)) {
				l.mu.Lock()
				l.states[string(name)] = append(l.states[string(name)], serverState{at, state})
				l.mu.Unlock()
			}
		}
	}
}

// first says when a server first got that state since a moment.
func (l *stateLog) first(server, state string, since time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.states[server] {
		if s.state == state && s.at.After(since) {
			return s.at, true
		}
	}
	return time.Time{}, false
}
