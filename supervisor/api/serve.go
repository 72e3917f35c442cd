package api

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"time"
)

// Serve answers on ln until ctx ends, over at most most connections at once; see connections. It
// then waits at most shutdownTimeout for the requests under way, and closes ln.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, most int, errorLog *log.Logger) error {
	const shutdownTimeout = 2 * time.Second
	c := newConnections(most)
	server := &http.Server{
		Handler:           c.busy(h),
		ConnState:         c.state,
		ConnContext:       c.context,
		ErrorLog:          errorLog,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(progressListener{ln}) }()
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
