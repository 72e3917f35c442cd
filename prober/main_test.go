package prober

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// serverRole makes the test binary a server for benchmarks, so that the CPU time
// of this process is that of the probes alone.
const serverRole = "PROBER_TEST_SERVER"

// The values of serverRole for a server of the gRPC health protocol, and for HTTPS of either version.
const (
	grpcRole  = "grpc"
	http1Role = "https"
	http2Role = "https, HTTP/2"
)

// mainThread says that the main goroutine stays on the main thread, as in healthd itself:
// see visit.
var mainThread = func() bool {
	runtime.LockOSThread()
	return unix.Gettid() == unix.Getpid()
}()

func TestMain(m *testing.M) {
	switch os.Getenv(serverRole) {
	case "":
	case grpcRole:
		os.Exit(serveGRPC())
	case http1Role, http2Role:
		os.Exit(serveTLS(os.Getenv(serverRole) == http2Role))
	default:
		os.Exit(serve())
	}
	if name := os.Getenv(insideRole); name != "" {
		os.Exit(serveInside(name))
	}
	if os.Getenv(mainThreadRole) != "" {
		os.Exit(visitOnMainThread())
	}
	if port := os.Getenv(powerlessRole); port != "" {
		os.Exit(askWithoutCapabilities())
	}
	if port, err := strconv.Atoi(os.Getenv(noDescriptorsRole)); err == nil {
		os.Exit(askWithoutDescriptors(port))
	}
	os.Exit(m.Run())
}

// serve answers HTTP and TCP until stdin ends. It prints both addresses.
func serve() int {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	go func() {
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "ok")
			if r.URL.Path == "/chunked" {
				w.(http.Flusher).Flush()
			}
		}))
	}()
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, _ = io.WriteString(os.Stdout, web.Addr().String()+" "+plain.Addr().String()+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// serveGRPC answers that it is healthy until stdin ends. It prints its address.
func serveGRPC() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	_, _ = io.WriteString(os.Stdout, l.Addr().String()+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// serveTLS answers HTTPS until stdin ends. It prints its address.
func serveTLS(http2 bool) int {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.EnableHTTP2 = http2
	s.StartTLS()
	_, _ = io.WriteString(os.Stdout, s.Listener.Addr().String()+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// startServer starts serve in another process and returns the addresses of its
// HTTP and its TCP server.
func startServer(b *testing.B) (web, plain string) {
	b.Helper()
	web, plain, _ = strings.Cut(startRole(b, "1"), " ")
	return web, plain
}

// startRole starts a server in another process and returns what it prints.
func startRole(b *testing.B, role string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverRole+"="+role)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}
