package docker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// forbids says that a request is not allowed. Some proxies know methods only.
func forbids(resp *http.Response) bool {
	return resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusMethodNotAllowed
}

// nameRequest has an answer by which a request is not allowed name the request: proxies answer with a page that says
// nothing. The words of an engine, such as those of its authorization plugin, stay.
func nameRequest(resp *http.Response, r *http.Request) {
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	_ = resp.Body.Close()
	var message struct {
		Message string `json:"message"`
	}
	if _ = json.Unmarshal(answer, &message); message.Message != "" {
		message.Message = ": " + message.Message
	} else {
		message.Message = " (a socket proxy?)"
	}
	message.Message = r.Method + " " + plainPath(r.URL.Path) + ": " + resp.Status + message.Message
	answer, _ = json.Marshal(message)
	resp.StatusCode, resp.Body, resp.ContentLength = http.StatusForbidden, io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	resp.Header.Set("Content-Type", "application/json")
}

var versionOfPath = regexp.MustCompile(`^.*?/v[0-9.]+/`)

// plainPath returns a request's path as a proxy's rules have it, with short IDs.
func plainPath(path string) string {
	parts := strings.Split(versionOfPath.ReplaceAllString(path, "/"), "/")
	for i := range parts {
		parts[i] = short(parts[i])
	}
	return strings.Join(parts, "/")
}
