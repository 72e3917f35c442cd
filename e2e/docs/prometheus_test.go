package docs

import (
	"healthd/e2e/ports"

	"healthd/e2e/patience"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
)

const observability = "../../configs/observability"

// prometheus is a private Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts Prometheus with the configuration and rules that are shipped, for the healthd at an address. It
// asks and judges each second.
func startPrometheus(t *testing.T, healthd string) *prometheus {
	t.Helper()
	dir, address := t.TempDir(), ports.Address(t)
	for _, name := range []string{"prometheus.yml", "healthd.rules.yml"} {
		text, err := os.ReadFile(filepath.Join(observability, name))
		if err != nil {
			t.Fatal(err)
		}
		here := strings.NewReplacer("127.0.0.1:8646", healthd, "_interval: 15s", "_interval: 1s").Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return runPrometheus(t, dir, address)
}

// runPrometheus starts Prometheus with the prometheus.yml of a directory, in which it also keeps its data. It ends with
// the test.
func runPrometheus(t *testing.T, dir, address string) *prometheus {
	t.Helper()
	log := &harness.Buffer{}
	cmd := exec.Command(harness.FindProgram(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(patience.Limit):
			_ = cmd.Process.Kill()
			<-exited
		}
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", log)
		}
	})
	return &prometheus{t: t, url: "http://" + address}
}

// ask reads data of the HTTP API into v.
func (p *prometheus) ask(path string, query url.Values, v any) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, body)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, v)
}

// found is a series that a query found.
type found struct {
	Metric map[string]string
	Value  [2]any   // of a query at one time
	Values [][2]any // of one over a time
}

// numbers returns the values that are numbers, the oldest first.
func (f found) numbers() (all []float64) {
	for _, at := range append(f.Values, f.Value) {
		text, _ := at[1].(string)
		if n, err := strconv.ParseFloat(text, 64); err == nil && n == n { // not NaN
			all = append(all, n)
		}
	}
	return all
}

// query returns what an expression yields now; over: during the last half minute.
func (p *prometheus) query(expression string, over bool) ([]found, error) {
	path, query := "/api/v1/query", url.Values{"query": {expression}}
	if over {
		now := time.Now().Unix()
		path = "/api/v1/query_range"
		query.Set("start", strconv.FormatInt(now-30, 10))
		query.Set("end", strconv.FormatInt(now, 10))
		query.Set("step", "1")
	}
	var answer struct{ Result []found }
	err := p.ask(path, query, &answer)
	return answer.Result, err
}

// yields returns an error unless an expression yields a number.
func (p *prometheus) yields(expression string, over bool) error {
	all, err := p.query(expression, over)
	for _, f := range all {
		if len(f.numbers()) > 0 {
			return nil
		}
	}
	if err == nil {
		err = fmt.Errorf("it yields no number, but %v", all)
	}
	return err
}

// rule is a rule as Prometheus shows it.
type rule struct {
	Name, Query, Health, LastError, Type string
	Labels, Annotations                  map[string]string
	Alerts                               []struct {
		State               string
		Labels, Annotations map[string]string
	}
}

func (p *prometheus) rules() ([]rule, error) {
	var answer struct{ Groups []struct{ Rules []rule } }
	err := p.ask("/api/v1/rules", nil, &answer)
	var all []rule
	for _, g := range answer.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}
