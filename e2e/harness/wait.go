package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"healthd/e2e/patience"
)

// Eventually calls try until it returns nil, as long as it takes. When it never does (patience.Limit), the test
// fails with all that tells why.
func (d *Daemon) Eventually(what string, try func() error) {
	d.T.Helper()
	if err := patience.Try("healthd would "+what, try); err != nil {
		d.T.Fatalf("%v\n%s", err, d.dump())
	}
}

// Until waits until wanted returns true for a container's status.
func (d *Daemon) Until(name, what string, wanted func(Status) bool) Status {
	d.T.Helper()
	var s Status
	d.Eventually("see "+name+" "+what, func() (err error) {
		if s, err = d.Status(name); err != nil {
			return err
		}
		if !wanted(s) {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	return s
}

// Stays checks that wanted returns true for a container's status all the time.
func (d *Daemon) Stays(during time.Duration, name, what string, wanted func(Status) bool) {
	d.T.Helper()
	end := time.After(during)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := d.Status(name)
		if err != nil || !wanted(s) {
			d.T.Fatalf("%s is not always %s: %+v, %v", name, what, s, err)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// dump is what healthd says of itself, and what its engine has logged.
func (d *Daemon) dump() string {
	var b strings.Builder
	for _, path := range []string{"/v1/containers", "/v1/events"} {
		_, text, err := d.Get(path)
		fmt.Fprintf(&b, "%s: %s %v\n", path, text, err)
	}
	text, err := d.goroutines()
	fmt.Fprintf(&b, "goroutines of healthd: %s %v\n", text, err)
	if d.engine != nil {
		fmt.Fprintf(&b, "log of the engine:\n%s\n", d.engine.Log())
	}
	return b.String()
}

// goroutines asks at the control socket.
func (d *Daemon) goroutines() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.path("control.sock"))
	}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://healthd/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// AtLeast is an error when less has come than was wanted.
func AtLeast(want, got int) error {
	if got < want {
		return fmt.Errorf("it is %d", got)
	}
	return nil
}

// Gone is an error when there is none.
func Gone(err error) error {
	if err == nil {
		return errors.New("it is still there")
	}
	return nil
}
