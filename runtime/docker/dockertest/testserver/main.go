// Command testserver is the program of test containers: a server for HTTP, gRPC health and
// plain TCP. Flags and requests control its behaviour.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

type options struct {
	http, grpc, tcp string
	startDelay      time.Duration
	hangAfter       time.Duration
	exitAfter       time.Duration
	exitCode        int
	ignoreTerm      bool
	status          int
	termDelay       time.Duration
	finish          bool
	environ         int
}

func main() {
	var o options
	flag.StringVar(&o.http, "http", ":8080", "address for HTTP")
	flag.StringVar(&o.grpc, "grpc", ":9090", "address for gRPC health")
	flag.StringVar(&o.tcp, "tcp", ":7070", "address that accepts and closes")
	flag.DurationVar(&o.startDelay, "start-delay", 0, "wait before listening")
	flag.DurationVar(&o.hangAfter, "hang-after", -1, "accept but never answer after this")
	flag.DurationVar(&o.exitAfter, "exit-after", -1, "exit after this")
	flag.IntVar(&o.exitCode, "exit-code", 0, "exit code of -exit-after and of a graceful end")
	flag.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM")
	flag.IntVar(&o.status, "status", 200, "first status of /healthz")
	flag.DurationVar(&o.termDelay, "term-delay", 0, "wait between SIGTERM and the exit")
	flag.BoolVar(&o.finish, "finish", false, "finish requests before the exit that SIGTERM asks for")
	flag.IntVar(&o.environ, "environ", 0, "bytes of its environment as others see it; 0: as it is")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	if o.ignoreTerm {
		signal.Reset()
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	exit := after(o.exitAfter)
	if o.environ > 0 {
		if err := growEnvironment(o.environ); err != nil {
			return err
		}
	}
	listening := after(o.startDelay)
	errs := make(chan error, 3)
	var s *httpServer
	for {
		select {
		case <-listening:
			listening = nil
			fmt.Println("listening")
			s = serve(o, errs)
		case err := <-errs:
			return err
		case <-exit:
			os.Exit(o.exitCode)
		case sig := <-term:
			fmt.Println("got", sig)
			if o.finish && s != nil {
				_ = s.server.Shutdown(context.Background())
			}
			time.Sleep(o.termDelay)
			os.Exit(o.exitCode)
		}
	}
}

// after is time.After without a tick for negative durations.
func after(d time.Duration) <-chan time.Time {
	if d < 0 {
		return nil
	}
	return time.After(d)
}

func serve(o options, errs chan<- error) *httpServer {
	checks := health.NewServer()
	s := newHTTPServer(o.http, o.status, after(o.hangAfter), checks)
	go func() { errs <- s.server.ListenAndServe() }()
	go func() { errs <- serveGRPC(o.grpc, checks) }()
	go func() { errs <- serveTCP(o.tcp) }()
	return s
}

func serveGRPC(addr string, checks *health.Server) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	g := grpc.NewServer()
	healthpb.RegisterHealthServer(g, checks)
	return g.Serve(l)
}

func serveTCP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_ = c.Close()
	}
}
