package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"healthd/e2e/patience"
	"healthd/runtime"
)

// frame returns a frame of the engine's stream whose header tells that length.
func frame(stream byte, length int, payload string) string {
	header := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(header[4:], uint32(length))
	return string(header) + payload
}

func TestDemultiplex(t *testing.T) {
	for _, tt := range []struct{ name, stream, want, wrong string }{
		{"nothing", "", "", ""},
		{"both streams", frame(1, 2, "a\n") + frame(2, 2, "b\n") + frame(0, 1, "c"), "a\nb\nc", ""},
		{"an empty frame", frame(1, 0, "") + frame(1, 1, "a"), "a", ""},
		{"a cut header", frame(1, 1, "a") + "\x01\x00", "a", "its stream is cut"},
		{"a cut frame", frame(1, 1<<31, "abc"), "abc", "its stream is cut"},
		{"the engine's message", frame(1, 1, "a") + frame(3, 9, "no space\n"), "a", "the engine says: no space"},
		{"a message without end", frame(3, 1<<31, strings.Repeat("x", 1<<20)), "", "the engine says: x"},
		{"something else", "HTTP/1.1 200 OK", "", "no stream of frames"},
	} {
		var b bytes.Buffer
		err := demultiplex(&b, strings.NewReader(tt.stream))
		if b.String() != tt.want || (err == nil) != (tt.wrong == "") || err != nil && (!strings.Contains(err.Error(), tt.wrong) || len(err.Error()) > 2*startErrorMax) {
			t.Errorf("%s: got %q, %v", tt.name, b.String(), err)
		}
	}
}

// It never panics, keeps no more than is there, and agrees with the client's own reader where that
// finds nothing wrong.
func FuzzDemultiplex(f *testing.F) {
	f.Add([]byte(frame(1, 2, "a\n") + frame(2, 2, "b\n")))
	f.Add([]byte(frame(3, 200, "x")))
	f.Add([]byte(frame(1, 1<<30, "x")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var got, want bytes.Buffer
		err := demultiplex(&got, bytes.NewReader(stream))
		if got.Len() > len(stream) {
			t.Fatalf("%d bytes of %d", got.Len(), len(stream))
		}
		if len(stream) > 4 && stream[4] > 0 { // the client makes room for what the header tells
			return
		}
		if _, other := stdcopy.StdCopy(&want, &want, bytes.NewReader(stream)); err == nil && other == nil && got.String() != want.String() {
			t.Errorf("got %q, want %q", got.String(), want.String())
		}
	})
}

func TestUsageOf(t *testing.T) {
	s := &container.StatsResponse{
		MemoryStats: container.MemoryStats{Usage: 100, Limit: 400, Stats: map[string]uint64{"inactive_file": 30, "total_inactive_file": 40}},
		CPUStats:    container.CPUStats{CPUUsage: container.CPUUsage{TotalUsage: 7}, ThrottlingData: container.ThrottlingData{ThrottledTime: 8}},
		PidsStats:   container.PidsStats{Current: 2, Limit: 18446744073709551615},
	}
	want := runtime.Usage{Memory: 60, MemoryLimit: 400, CPU: 7, Throttled: 8, PIDs: 2}
	if got := usageOf(s); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.MemoryStats.Stats = map[string]uint64{"inactive_file": 1000}
	if got := usageOf(s); got.Memory != 100 {
		t.Errorf("a cache greater than what is used: %+v", got)
	}
}

// evidenceEngine answers inspections with one of a container with or without a terminal, and the rest
// with answer.
func evidenceEngine(t *testing.T, tty bool, answer http.HandlerFunc) *Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	inspected := inspection
	if tty {
		inspected = strings.Replace(inspected, `"Config":{`, `"Config":{"Tty":true,`, 1)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.HasSuffix(r.URL.Path, "/json"):
			_, _ = io.WriteString(w, inspected)
		default:
			answer(w, r)
		}
	})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Close() })
	e, err := New(Config{Endpoint: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestLogOfATerminalIsNotFramed(t *testing.T) {
	for _, tty := range []bool{false, true} {
		e := evidenceEngine(t, tty, func(w http.ResponseWriter, r *http.Request) {
			text := "2026-01-02T03:04:05Z hello\r\n"
			if !tty {
				text = frame(2, len(text), text)
			}
			_, _ = io.WriteString(w, text)
		})
		l, err := e.Logs(t.Context(), fuzzedID, 10, 1000)
		if err != nil || len(l.Lines) != 1 || l.Lines[0].Text != "hello" || l.Lines[0].Time.IsZero() {
			t.Errorf("terminal %v: got %+v, %v", tty, l, err)
		}
	}
}

// An engine whose log does not end costs what the bound says.
func TestEndlessLogIsBounded(t *testing.T) {
	sent := make(chan int, 1)
	e := evidenceEngine(t, false, func(w http.ResponseWriter, r *http.Request) {
		n, piece := 0, []byte(frame(1, 1<<20, strings.Repeat("x", 1<<20)))
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				break
			}
			n += len(piece)
		}
		sent <- n
	})
	l, err := e.Logs(t.Context(), fuzzedID, 200, 1000)
	if err != nil || !l.Cut || len(l.Lines) != 1 || len(l.Lines[0].Text) != 1000 {
		t.Errorf("got %d lines, cut: %v, %v", len(l.Lines), l.Cut, err)
	}
	if n := <-sent; n > 4*maxLogRead {
		t.Errorf("the engine has sent %d bytes", n)
	}
}

func TestLogThatHangs(t *testing.T) {
	e := evidenceEngine(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, frame(1, 2, "a\n"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	most := 100 * time.Millisecond
	patience.Until(t, "it tells what has come", func() error { // on a busy machine that takes longer
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		most *= 3
		if l, err := e.Logs(ctx, fuzzedID, 200, 1000); err == nil || len(l.Lines) != 1 {
			return fmt.Errorf("got %+v, %v", l, err)
		}
		return nil
	})
}
