package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// One request at a time asks the engines, and none from the network.
func TestUnsupervised(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	asked, answer := make(chan struct{}), make(chan struct{})
	a.bystanders = func(context.Context) Unsupervised {
		close(asked)
		<-answer
		return Unsupervised{Containers: []Bystander{{Name: "db", Why: []string{"it has no label app"}}}}
	}
	client := serveControl(t, a)
	bodies := make(chan string, 1)
	go func() {
		_, body := put(t, client, http.MethodGet, "http://healthd/v1/unsupervised", "")
		bodies <- body
	}()
	<-asked
	if answer, body := put(t, client, http.MethodGet, "http://healthd/v1/unsupervised", ""); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("beside another one: %s %s", answer.Status, body)
	}
	close(answer)
	if body := <-bodies; !strings.Contains(body, `"name":"db"`) || !strings.Contains(body, `"why":["it has no label app"]`) {
		t.Errorf("got %s", body)
	}
	if got := get(t, a.ReadOnly(), "/v1/unsupervised").Code; got != http.StatusNotFound {
		t.Errorf("on the network: %d", got)
	}
}
