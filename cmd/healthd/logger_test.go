package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/e2e/patience"
)

// followLog starts the daemon and returns what it logs, for patience.Limit at most.
func (p *process) followLog(t *testing.T) <-chan string {
	t.Helper()
	cmd := program(t, "run", "--config", p.config)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ended:
				return
			}
		}
	}()
	limit := time.AfterFunc(patience.Limit, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		close(ended)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return lines
}

// What libraries print comes as entries of the log, too.
func TestNothingBesideTheLog(t *testing.T) {
	const stray = "HTTP/1.1 400 Bad Request\r\n\r\n"
	socket := filepath.Join(t.TempDir(), "docker.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			_, _ = conn.Read(buf)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n"+stray)
			time.AfterFunc(time.Second, func() { conn.Close() })
		}
	}()
	p := newProcess(t, "unix://"+socket, "")
	p.daemon += "[log]\nlevel = \"debug\"\nformat = \"json\"\n"
	p.configure(t, "")
	log := p.followLog(t)
	for line := range log {
		if !strings.HasPrefix(line, "{") {
			t.Fatalf("%q is no entry of the log", line)
		}
		if strings.Contains(line, "Unsolicited response") {
			if !strings.Contains(line, `"level":"debug"`) {
				t.Errorf("got %s", line)
			}
			return
		}
	}
	t.Error("the library did not complain")
}

func TestLogIsEscaped(t *testing.T) {
	for _, format := range []string{"console", "json", "journal"} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		log, queue, err := newLogger(configs.Log{Level: "info", Format: format}, f)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("event", zap.String("message", "probe failed: \u009b31m\u202e"))
		if err := queue.close(patience.Limit); err != nil {
			t.Fatal(err)
		}
		f.Close()
		got, err := os.ReadFile(path)
		if want := `probe failed: \u009b31m\u202e`; err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: got %q, %v", format, got, err)
		}
	}
}
