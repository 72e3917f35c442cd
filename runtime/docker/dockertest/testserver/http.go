package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// httpServer is the HTTP server. Its paths:
//
//	GET  /healthz              the status set, 200 at first
//	POST /set?status=N         sets the status of /healthz
//	GET  /ready                the status set, 200 at first
//	POST /set?ready=N          sets the status of /ready
//	POST /set?grpc=NOT_SERVING sets the gRPC health status (service=NAME for one service)
//	POST /set?hang=1           from now on every other request is never answered
//	POST /set?delay=2s         /healthz answers after this
//	GET  /redirect-local       301 to /healthz
//	GET  /redirect-foreign     301 to http://example.invalid/
//	GET  /echo                 the request's headers
//	POST /exit?code=N          ends the process
//	ANY  /work?for=20ms        200 after this, with the address that was asked
//	GET  /worked               how many requests came to /work, the time of the last one, and how many are under way
type httpServer struct {
	status, ready, delay atomic.Int64
	hang                 atomic.Bool
	checks               *health.Server
	work                 workCounter
	server               *http.Server
}

func newHTTPServer(addr string, status int, hang <-chan time.Time, checks *health.Server) *httpServer {
	s := &httpServer{checks: checks}
	s.status.Store(int64(status))
	s.ready.Store(http.StatusOK)
	s.server = &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, Handler: s.handler()}
	if hang != nil {
		go func() {
			<-hang
			s.hang.Store(true)
		}()
	}
	return s
}

func (s *httpServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("POST /set", s.set)
	mux.Handle("/redirect-local", http.RedirectHandler("/healthz", http.StatusMovedPermanently))
	mux.Handle("/redirect-foreign", http.RedirectHandler("http://example.invalid/", http.StatusMovedPermanently))
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) })
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(s.ready.Load())) })
	mux.HandleFunc("/work", s.work.serve)
	mux.HandleFunc("/worked", s.work.report)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hang.Load() && r.URL.Path != "/set" {
			<-r.Context().Done()
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *httpServer) healthz(w http.ResponseWriter, r *http.Request) {
	if d := time.Duration(s.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			return
		}
	}
	status := int(s.status.Load())
	w.WriteHeader(status)
	fmt.Fprintf(w, "status %d\n", status)
}

func (s *httpServer) set(w http.ResponseWriter, r *http.Request) {
	for name, status := range map[string]*atomic.Int64{"status": &s.status, "ready": &s.ready} {
		v := r.FormValue(name)
		if v == "" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 200 || n > 599 {
			http.Error(w, "bad "+name, http.StatusBadRequest)
			return
		}
		status.Store(int64(n))
	}
	if v := r.FormValue("delay"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.delay.Store(int64(d))
	}
	if v := r.FormValue("hang"); v != "" {
		s.hang.Store(v == "1")
	}
	if v := r.FormValue("grpc"); v != "" {
		n, ok := healthpb.HealthCheckResponse_ServingStatus_value[v]
		if !ok {
			http.Error(w, "bad serving status", http.StatusBadRequest)
			return
		}
		s.checks.SetServingStatus(r.FormValue("service"), healthpb.HealthCheckResponse_ServingStatus(n))
	}
	_, _ = io.WriteString(w, "ok\n")
}
