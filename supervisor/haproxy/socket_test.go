package haproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// An answer may take long while some of it comes. Then it takes too long.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pause time.Duration // between two bytes
		bytes int
		took  time.Duration
		err   error
	}{
		"slow":    {answerTimeout - time.Second, 5, 5 * (answerTimeout - time.Second), io.EOF},
		"silent":  {answerTimeout + time.Second, 5, answerTimeout, os.ErrDeadlineExceeded},
		"endless": {answerTimeout - time.Second, 100, exchangeTimeout, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer there.Close()
					for range tc.bytes {
						select {
						case <-time.After(tc.pause):
						case <-ctx.Done():
							return
						}
						if _, err := there.Write([]byte{'x'}); err != nil {
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
