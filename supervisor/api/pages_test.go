package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	curl       = regexp.MustCompile(`(?m)^.*\bcurl\b.*$`)
	curlMethod = regexp.MustCompile(`-X (\w+)`)
	curlURL    = regexp.MustCompile(`http://[^\s')]+`)
	socketFlag = regexp.MustCompile(`--unix-socket /run/healthd/control\.sock`)
)

// Each call of curl in the pages for users asks for a path that there is, by its method, on a listener that has it,
// and with parameters that it knows.
func TestPagesAskForWhatThereIs(t *testing.T) {
	c := theContract(t)
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range curl.FindAllString(string(text), -1) {
			at := curlURL.FindString(line)
			u, err := url.Parse(at)
			if err != nil || at == "" {
				continue // of something else
			}
			calls++
			method := http.MethodGet
			if found := curlMethod.FindStringSubmatch(line); found != nil {
				method = found[1]
			}
			_, op, err := c.find(httptest.NewRequest(method, at, nil))
			if op == nil || err != nil {
				t.Errorf("%s: %s: no such path or method: %v", file, line, err)
				continue
			}
			if control := socketFlag.MatchString(line); control != (u.Host == "healthd") || op.control() && !control {
				t.Errorf("%s: %s: not on this listener", file, line)
			}
			known := map[string]bool{}
			for _, p := range op.Parameters {
				known[p.Name] = p.In == "query"
			}
			for name := range u.Query() {
				if !known[name] {
					t.Errorf("%s: %s: no such parameter: %s", file, line, name)
				}
			}
		}
	}
	if calls < 6 {
		t.Errorf("found only %d calls", calls)
	}
}
