package api

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"time"
)

// Serve answers on ln until ctx ends. It then waits at most shutdownTimeout for the requests
// under way, and closes ln.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, errorLog *log.Logger) error {
	const shutdownTimeout = 2 * time.Second
	server := &http.Server{
		Handler:           h,
		ErrorLog:          errorLog,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(shutdownCtx) != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
