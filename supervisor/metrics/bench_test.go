package metrics

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// A scrape of 1,000 containers with three probes each, in 100 services of 10.
func BenchmarkScrape(b *testing.B) {
	views := make([]*core.View, 0, 1000)
	for i := range cap(views) {
		v := web(fmt.Sprintf("shop-service%02d-%d", i/10, i%10), fmt.Sprintf("%064x", i))
		v.Service = fmt.Sprintf("shop/service%02d", i/10)
		v.Container.Labels = map[string]string{core.ComposeProject: "shop"}
		for t := range v.Spec.Probes {
			v.Spec.Probes[t] = &core.ProbeSpec{}
			for ms := range time.Duration(10) {
				v.State.Totals.Count(core.ProbeType(t), prober.Result{Outcome: prober.Success, Latency: ms * time.Millisecond})
			}
		}
		views = append(views, v)
	}
	h := Handler(board(views...), "v1", nil)
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			request.Header.Set("Accept-Encoding", encoding)
			var answer *httptest.ResponseRecorder
			for b.Loop() {
				answer = httptest.NewRecorder()
				h.ServeHTTP(answer, request)
			}
			sent := answer.Body.Len()
			var body io.Reader = answer.Body
			if encoding == "gzip" {
				unzipped, err := gzip.NewReader(body)
				if err != nil {
					b.Fatal(err)
				}
				body = unzipped
			}
			text, err := io.ReadAll(body)
			if err != nil || answer.Code != http.StatusOK {
				b.Fatal(answer.Code, err)
			}
			b.ReportMetric(float64(sent), "B/scrape")
			b.ReportMetric(float64(samples(string(text))), "samples/scrape")
		})
	}
}

func samples(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
