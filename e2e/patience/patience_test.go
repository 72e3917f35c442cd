package patience

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, late := time.Now(), errors.New("not there")
		err := Try("the bus stops", func() error {
			if time.Since(begun) < time.Minute {
				return late
			}
			return nil
		})
		if err != nil {
			t.Errorf("what comes late is an error: %v", err)
		}
		begun = time.Now()
		err = Try("the bus stops", func() error { return late })
		if !errors.Is(err, late) || !strings.Contains(err.Error(), "the bus stops") {
			t.Errorf("got %v, want one that names what never came, and the last error", err)
		}
		if waited := time.Since(begun); waited < Limit {
			t.Errorf("gave up after %v", waited)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, done := make(chan int), make(chan struct{})
		go func() {
			time.Sleep(time.Minute)
			c <- 7
			close(done)
		}()
		if got := Receive(t, "a number comes", c); got != 7 {
			t.Errorf("got %d", got)
		}
		Closed(t, "its sender ends", done)
	})
}
