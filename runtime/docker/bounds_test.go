package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/e2e/patience"
)

// floodingEngine is an engine whose answers of one kind, by the end of their path, do not end.
func floodingEngine(t *testing.T, path string) *Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		switch {
		case strings.HasSuffix(r.URL.Path, path):
			_, _ = io.WriteString(w, `{"Actor":{"Attributes":{"a":"`)
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("x", 1<<20))); err != nil {
					return
				}
			}
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			_, _ = io.WriteString(w, "[]")
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

func TestAnswersAreBounded(t *testing.T) {
	for _, tt := range []struct {
		path string
		most int
		ask  func(context.Context, *Engine) error
	}{
		{"/containers/x/json", maxOtherAnswer, func(ctx context.Context, e *Engine) error { // Inspect waits for no more than callTimeout
			c, err := e.client(ctx)
			if err != nil {
				return err
			}
			_, err = inspect(ctx, c, "x")
			return err
		}},
		{"/exec/x/json", maxAnswer, func(ctx context.Context, e *Engine) error {
			c, err := e.client(ctx)
			if err != nil {
				return err
			}
			return e.get(ctx, c, "/exec/x/json", &execState{})
		}},
		{"/events", maxEvent, func(ctx context.Context, e *Engine) error {
			s, err := e.Subscribe(ctx, time.Time{})
			if err == nil {
				_, err = s.Next()
			}
			return err
		}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
			defer cancel()
			err := tt.ask(ctx, floodingEngine(t, tt.path))
			if want := fmt.Sprintf("longer than %d bytes", tt.most); err == nil || tt.most != maxAnswer && !strings.Contains(err.Error(), want) || ctx.Err() != nil {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	// Many short events are no flood.
	b := &boundedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000))), most: maxEvent, lines: true}
	if n, err := io.Copy(io.Discard, b); n != 5000*1001 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
