package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/containerd/errdefs/pkg/errhttp"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

// Five requests do not use the client's own calls. Its list keeps the whole answer in memory. Its exec
// start hijacks the connection and then ignores the context; without a request to upgrade, the engine
// answers as usual. Its exec inspection drops whether there is an exit code. Its event stream drops
// the answer's Date. Podman's own API it does not know.

func (e *Engine) get(ctx context.Context, c *client.Client, path string, v any) error {
	return e.getUnversioned(ctx, c, "/v"+c.ClientVersion()+path, v)
}

// getUnversioned is get for a path that has its version.
func (e *Engine) getUnversioned(ctx context.Context, c *client.Client, path string, v any) error {
	resp, err := e.doUnversioned(ctx, c, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("cannot read the engine's answer: %w", err)
	}
	return nil
}

// post returns the body of the answer.
func (e *Engine) post(ctx context.Context, c *client.Client, path string, v any) (io.ReadCloser, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	resp, err := e.do(ctx, c, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (e *Engine) do(ctx context.Context, c *client.Client, method, path string, body io.Reader) (*http.Response, error) {
	return e.doUnversioned(ctx, c, method, "/v"+c.ClientVersion()+path, body)
}

// doUnversioned is do for a path that has its version, or none.
func (e *Engine) doUnversioned(ctx context.Context, c *client.Client, method, path string, body io.Reader) (*http.Response, error) {
	base, err := e.base(c)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTPClient().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	var message struct{ Message string }
	if json.Unmarshal(answer, &message) != nil || message.Message == "" {
		message.Message = strings.TrimSpace(string(answer))
	}
	if resp.StatusCode == http.StatusForbidden {
		return nil, runtime.Refusal(message.Message)
	}
	return nil, fmt.Errorf("%s: %w", message.Message, errhttp.ToNative(resp.StatusCode))
}

// base returns the URL of the engine. On a Unix socket the host is not used.
func (e *Engine) base(c *client.Client) (string, error) {
	u, err := client.ParseHostURL(c.DaemonHost())
	if err != nil {
		return "", err
	}
	out := url.URL{Scheme: "http", Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	if e.tls() {
		out.Scheme = "https"
	}
	if u.Scheme == "unix" {
		out.Host, out.Path = client.DummyHost, ""
	}
	return out.String(), nil
}
