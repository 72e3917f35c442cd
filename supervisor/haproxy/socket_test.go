package haproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer may take long while some of it comes. Then it takes too long.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pause time.Duration // before each byte
		text  string
		took  time.Duration
		err   error
	}{
		"slow":    {answerTimeout - time.Second, "yes\n> ", 6 * (answerTimeout - time.Second), nil},
		"silent":  {answerTimeout + time.Second, "yes\n> ", answerTimeout, os.ErrDeadlineExceeded},
		"endless": {answerTimeout - time.Second, strings.Repeat("x", 100), exchangeTimeout, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer there.Close()
					for _, c := range []byte(tc.text) {
						select {
						case <-time.After(tc.pause):
						case <-ctx.Done():
							return
						}
						if _, err := there.Write([]byte{c}); err != nil {
							return
						}
					}
				}()
				began := time.Now()
				var text bytes.Buffer
				err := readAnswer(bufio.NewReader(&patientReader{here, began.Add(exchangeTimeout)}), &text)
				if took := time.Since(began); !errors.Is(err, tc.err) || took != tc.took {
					t.Errorf("%v after %v, want %v after %v", err, took, tc.err, tc.took)
				}
				cancel()
				here.Close()
			})
		})
	}
}
