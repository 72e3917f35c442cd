package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// work counts the requests that a load balancer sends.
type workCounter struct {
	mu       sync.Mutex
	Count    int
	Last     time.Time
	UnderWay int
}

func (k *workCounter) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.Count++
	k.Last = time.Now()
	k.UnderWay++
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.UnderWay--
		k.mu.Unlock()
	}()
	d, err := time.ParseDuration(r.FormValue("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(d)
	_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
}

func (k *workCounter) report(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = json.NewEncoder(w).Encode(k)
}
