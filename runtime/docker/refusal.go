package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"healthd/runtime"
)

// forbids says that a request is not allowed. Some proxies know methods only.
func forbids(resp *http.Response) bool {
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed}, resp.StatusCode)
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

// request is one that healthd makes of a container, and what does not work without it.
type request struct{ method, path, lacks string }

// calls are the requests by which healthd acts.
var calls = []request{
	{http.MethodPost, "/containers/*/stop", "healthd restarts nothing whose probes fail"},
	{http.MethodPost, "/containers/*/start", "healthd starts nothing that has ended"},
}

// questions are those without which healthd connects, but lacks something.
var questions = []request{
	{http.MethodPost, "/containers/*/exec", noExec},
	{http.MethodPost, "/exec/*/start", noExec},
	{http.MethodGet, "/exec/*/json", noExec},
	{http.MethodGet, "/containers/*/logs", "flight records have no log"},
	{http.MethodGet, "/containers/*/top", "flight records have no processes"},
	{http.MethodGet, "/containers/*/stats", "flight records have no memory and CPU"},
	{http.MethodGet, "/info", "healthd does not see whether the engine is rootless or has live-restore"},
}

const (
	noExec         = "no exec probes and hooks"
	refusedTimeout = 5 * time.Second
)

// Refused returns the requests that the engine, or a socket proxy before it, does not allow, each with what does not
// work then. It knows none of an engine that does not answer soon.
func (e *Engine) Refused(ctx context.Context) []string {
	return e.askRefused(ctx, slices.Concat(calls, questions))
}

// RefusedCalls returns what Refused does of the calls by which healthd acts, as of the newest connection.
func (e *Engine) RefusedCalls() []string {
	if all := e.refused.Load(); all != nil {
		return *all
	}
	return nil
}

// learnRefused has RefusedCalls tell of the connection that begins.
func (e *Engine) learnRefused(ctx context.Context) {
	all, before := e.askRefused(ctx, calls), e.RefusedCalls()
	e.refused.Store(&all)
	if len(all) > 0 && !slices.Equal(all, before) {
		e.log.Warn("the engine, or a socket proxy before it, does not allow what healthd needs",
			zap.Strings("requests", all))
	}
}

// askRefused makes these requests for a container that cannot exist, so that those that are allowed do nothing.
func (e *Engine) askRefused(ctx context.Context, requests []request) (refused []string) {
	ctx, cancel := context.WithTimeout(ctx, refusedTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil
	}
	var id [32]byte          // of a name, or an ID known before, a container could be made
	_, _ = rand.Read(id[8:]) // the zeros before it show in a proxy's log who asks, and why
	none := hex.EncodeToString(id[:])
	for _, r := range requests {
		resp, err := e.do(ctx, c, r.method, strings.Replace(r.path, "*", none, 1), nil)
		switch {
		case err == nil:
			_ = resp.Body.Close()
		case errors.Is(err, runtime.ErrRefused):
			refused = append(refused, r.method+" "+r.path+" ("+r.lacks+")")
		case ctx.Err() != nil:
			return refused
		}
	}
	return refused
}
