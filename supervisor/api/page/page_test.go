package page_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

// markup is what makes elements or code of a text. None of it may be in the page's files.
var markup = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function|\bon[a-z]+=|style=|javascript:|srcdoc|setHTML|https?://(?:www\.w3\.org)?`)

func TestSourcesWriteNoMarkup(t *testing.T) {
	files, err := filepath.Glob("files/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range markup.FindAllString(string(text), -1) {
			if found != "http://www.w3.org" {
				t.Errorf("%s has %q", file, found)
			}
		}
		if strings.HasSuffix(file, ".html") && regexp.MustCompile(`<script[^>]*>[^<]|<style`).Match(text) {
			t.Errorf("%s has code or styles of its own", file)
		}
	}
}

// Every file says what it is, lets nothing else in, and is sent again only if it is another one.
func TestHeaders(t *testing.T) {
	host := serve(t)
	index := ask(t, host, "Accept", "text/html,*/*")
	files, err := filepath.Glob("files/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		answer := ask(t, host+"page/"+name, "Accept", "*/*")
		want := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[filepath.Ext(name)]
		if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(got, want) || want == "" {
			t.Errorf("%s: %d %s", name, answer.StatusCode, got)
		}
		again := ask(t, host+"page/"+name, "If-None-Match", answer.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", name, again.StatusCode)
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
		} {
			for of, a := range map[string]*http.Response{name: answer, "the page": index} {
				if got := a.Header.Get(header); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %s is %q", of, header, got)
				}
			}
		}
	}
	if got := ask(t, host, "Accept", "*/*"); !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") || got.Header.Get("Vary") != "Accept" {
		t.Errorf("without HTML in Accept: %v", got.Header)
	}
}

// A web page of another name sees nothing of it.
func TestOtherHostsAreRefused(t *testing.T) {
	host := serve(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example.com"
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// serve returns the URL of a read-only listener of a healthd without containers.
func serve(t *testing.T) string {
	t.Helper()
	a := api.New(api.Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}})})
	server := httptest.NewServer(api.OnlyHosts(a.ReadOnly(), nil))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

func ask(t *testing.T, url, header, value string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(header, value)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer
}
