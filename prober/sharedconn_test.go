package prober

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Probes of a server that speaks HTTP/2 do not share a connection: the end of one would cut
// the others short.
func TestProbesShareNoConnection(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait, _ := time.ParseDuration(r.URL.Query().Get("wait")) // so that probes overlap
		time.Sleep(wait)
		_, _ = io.WriteString(w, "ok")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	prober := New(Config{})
	var wg sync.WaitGroup
	for i := range 4 {
		path := fmt.Sprintf("/?wait=%dms", 5+4*i)
		p, err := prober.Probe(Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: portOf(t, s.URL), Path: path}}, loopback)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range often(50, 10) {
				if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wg.Wait()
}
