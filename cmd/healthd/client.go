package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"healthd/configs"
	"healthd/supervisor/api"
)

// client talks to the daemon over its control socket.
type client struct {
	socket  string
	timeout time.Duration
	http    *http.Client
}

// responseError is an answer of the daemon that is not a success.
type responseError struct {
	status   int
	message  string
	problems []string // of a configuration
	soon     bool     // the daemon expects to answer otherwise soon
}

func (r *responseError) Error() string { return r.message }

// client returns a client of the daemon whose socket the flags or the configuration name.
func (a *app) client() (*client, error) {
	socket, err := a.controlSocket()
	if err != nil {
		return nil, err
	}
	return newClient(socket, answerTimeout), nil
}

func newClient(socket string, timeout time.Duration) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &client{socket: socket, timeout: timeout, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// controlSocket returns the daemon's socket: the configuration may be broken by now, and its reader may
// lack the permission. Of files that the command line names, it must be certain: another daemon may
// have the default one.
func (a *app) controlSocket() (string, error) {
	if a.socket != "" {
		return a.socket, nil
	}
	socket, certain := configs.ControlSocket(a.configs)
	if !certain && len(a.configs) > 0 {
		_, err := configs.Load(a.configs)
		return "", fmt.Errorf("cannot find the control socket (name it with --socket):\n%w", err)
	}
	return socket, nil
}

// answerTimeout is for answers that need no work of the daemon.
const answerTimeout = 10 * time.Second

// get decodes what is at path into out.
func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.withTimeout(ctx, func(ctx context.Context) error { return c.do(ctx, http.MethodGet, path, query, "", out) })
}

// awaitSync waits while a daemon that has just started asks its engines for their containers, a few
// seconds at most. It does not wait for an engine that is away: what follows tells of that.
func (c *client) awaitSync(ctx context.Context) {
	const patience, pause = 5 * time.Second, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		refused, ok := errors.AsType[*responseError](c.starting(ctx))
		if !ok || refused.status != http.StatusServiceUnavailable || !refused.soon {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// starting returns why the daemon does not know all containers yet, nil when it does.
func (c *client) starting(ctx context.Context) error {
	return c.withTimeout(ctx, func(ctx context.Context) error {
		answer, err := c.send(ctx, http.MethodGet, "/readyz", nil, "", "text/plain")
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

// put sends a text to path and decodes the answer into out.
func (c *client) put(ctx context.Context, path, text string, out any) error {
	return c.withTimeout(ctx, func(ctx context.Context) error { return c.do(ctx, http.MethodPut, path, nil, text, out) })
}

// post sends a request that is done at once, and decodes the answer into out.
func (c *client) post(ctx context.Context, path string, query url.Values, out any) error {
	return c.withTimeout(ctx, func(ctx context.Context) error { return c.do(ctx, http.MethodPost, path, query, "", out) })
}

// withTimeout limits a request to the client's timeout, and names that in the error.
func (c *client) withTimeout(ctx context.Context, ask func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := ask(waiting)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return c.errNoAnswer()
	}
	return err
}

func (c *client) errNoAnswer() error {
	return fmt.Errorf("cannot reach the daemon at %s: it does not answer within %v", c.socket, c.timeout)
}

func (c *client) do(ctx context.Context, method, path string, query url.Values, text string, out any) error {
	const maxBody = 256 << 20
	answer, err := c.send(ctx, method, path, query, text, "application/json")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	return nil
}

// send returns the answer if it is a success; its body must be closed.
func (c *client) send(ctx context.Context, method, path string, query url.Values, text, accept string) (*http.Response, error) {
	target := url.URL{Scheme: "http", Host: "healthd", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.connectError(ctx, err)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, newResponseError(answer)
}

// stream is send for an answer that goes on: only its begin is limited to the client's timeout.
func (c *client) stream(ctx context.Context, path string, query url.Values, accept string) (*http.Response, error) {
	waiting, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.timeout, cancel)
	answer, err := c.send(waiting, http.MethodGet, path, query, "", accept)
	if late.Stop() || ctx.Err() != nil {
		return answer, err
	}
	if err == nil {
		answer.Body.Close()
	}
	return nil, c.errNoAnswer()
}

// newResponseError reads the error of an answer: JSON, or plain text.
func newResponseError(answer *http.Response) error {
	const maxBody = 64 << 10
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	var body api.RefusedReload // or api.Error
	if json.Unmarshal(data, &body) != nil {
		body.Error = strings.TrimSpace(string(data))
	}
	if body.Error == "" {
		body.Error = "the daemon answers " + answer.Status
	}
	return &responseError{answer.StatusCode, body.Error, body.Problems, answer.Header.Get("Retry-After") != ""}
}

// connectError adds what to do about a daemon that does not answer.
func (c *client) connectError(ctx context.Context, err error) error {
	cannot := "cannot reach the daemon at " + c.socket
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: is healthd running? (systemctl start healthd; if it runs, its socket was removed: systemctl kill -s HUP healthd)", cannot)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: is healthd running? (systemctl start healthd)", cannot)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied: only root and the group of the socket may use it", cannot)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", cannot, err)
}
