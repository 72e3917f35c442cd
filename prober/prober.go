// Package prober probes containers over HTTP, TCP and gRPC, with a command inside the
// container, or by reading the engine's own HEALTHCHECK. It runs lifecycle hooks by the
// same means.
//
//	Handler + Target ── Prober.Probe ──▶ Probe ── Ask ──▶ Result: Success, Failure, Unknown
//
//	Ask:  an asker (one per handler type) asks once
//	      it got an answer, or the container failed to give one ──▶ Success, Failure
//	      it could not ask (no descriptor, no engine …) ──▶ up to 3 attempts, then Unknown
//
//	LifecycleHandler + Target ── Prober.Hook ──▶ Hook ── Run ──▶ HookResult
//
//	Exec + Target ── Prober.Inquire ──▶ Answer
//
// When to probe, thresholds and what follows from a result are left to package
// supervisor. A new handler type needs a field in Handler, an asker, and a case in
// Prober.asker.
package prober

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// MaxOutput bounds the output kept of one probe, in bytes (10 KiB, as in the
// kubelet).
const MaxOutput = 10 << 10

// MaxIdle is for how long a probe with KeepAlive keeps a connection that it does not use.
const MaxIdle = 90 * time.Second

// MaxAge is for how long such a connection is used. After that the next probe makes a new one, as a new client does: it sees
// where a name leads now, which certificate the server has, and whether the server still accepts.
const MaxAge = 5 * time.Minute

// Outcome is the verdict of one probe.
type Outcome uint8

// The outcomes.
const (
	// Unknown: the probe learnt nothing about the container, because it could not be
	// carried out or is not decided yet. It does not count towards a threshold.
	Unknown Outcome = iota
	Success
	Failure
)

// String returns the outcome as status shows it.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "Success"
	case Failure:
		return "Failure"
	}
	return "Unknown"
}

// Cause says why a probe did not succeed, or succeeded with a warning.
type Cause string

// The causes. NotAsked, Pending and Late come with Unknown, Redirect and Warned with a Success that
// has a warning, the others with Failure.
const (
	Refused     Cause = "refused"
	Timeout     Cause = "timeout"
	Reset       Cause = "reset"       // also closed before the answer was complete
	Unreachable Cause = "unreachable" // no route, or the name does not resolve
	TLS         Cause = "tls"
	Protocol    Cause = "protocol" // the peer speaks another protocol, or redirects in a loop
	Status      Cause = "status"   // HTTP status, gRPC serving status, engine health
	ExitCode    Cause = "exit code"
	Redirect    Cause = "redirect"
	Content     Cause = "content" // the body is not as expected
	Warned      Cause = "warning" // by an exit code or a header that is called a warning
	NotAsked    Cause = "could not ask"
	Pending     Cause = "pending" // the HEALTHCHECK is still "starting"
	Late        Cause = "late"    // the timeout was over, but healthd did not run then: an answer may have been in time
)

// Result is the result of one probe.
type Result struct {
	Outcome Outcome
	Warning bool   // a Success worth an event: see Redirect and Warned
	Cause   Cause  // empty for a Success without a warning
	Output  string // at most MaxOutput bytes, valid UTF-8
	Latency time.Duration
	// Certificate is the end of the validity of the certificate that the server showed, be it
	// valid or not, in the years 1 to 9999; zero: it showed none.
	Certificate time.Time
}

// Probe probes one run of a container.
type Probe interface {
	// Ask probes once. It may be called from any goroutine, but not twice at once. It
	// returns within timeout (0 means 1 s) plus the time that the operating system or
	// the engine needs to give up, and at once with Unknown when ctx ends. A command may
	// wait as long as its timeout for its turn, before that begins.
	//
	// A goroutine that cannot come back from a container's network namespace stays locked
	// to its thread, which must end with it. So Ask wants a goroutine of its own.
	Ask(ctx context.Context, timeout time.Duration) Result

	// Close closes the connection that the probe keeps. One that Ask uses just now is closed when
	// that returns. A probe that was closed may be asked, but keeps no connection any more. Close may be
	// called from any goroutine, more than once, and does not wait.
	Close()
}

// Handler says how to probe. Exactly one field is set.
type Handler struct {
	HTTPGet      *HTTPGet
	TCPSocket    *TCPSocket
	Exec         *Exec
	GRPC         *GRPC
	EngineHealth *EngineHealth
}

// Via says where the socket of a probe or hook is opened.
type Via string

// The values of Via.
const (
	// ViaDefault is ViaHost if there is a Host or the container has an address, and
	// ViaContainer otherwise.
	ViaDefault Via = ""
	ViaHost    Via = "host"
	// ViaContainer: inside the container's network namespace. Without a Host, 127.0.0.1
	// is asked there. A Host that is a name is resolved on the host.
	ViaContainer Via = "container"
)

func (v Via) inside(host, address string) bool {
	return v == ViaContainer || v == ViaDefault && host == "" && address == ""
}

// Inside says whether a probe of a container with that address opens its socket inside the
// container's network namespace.
func (h Handler) Inside(address string) bool {
	switch {
	case h.HTTPGet != nil:
		return h.HTTPGet.Via.inside(h.HTTPGet.Host, address)
	case h.TCPSocket != nil:
		return h.TCPSocket.Via.inside(h.TCPSocket.Host, address)
	case h.GRPC != nil:
		return h.GRPC.Via.inside("", address)
	}
	return false
}

// Inside is Handler.Inside for a hook.
func (h LifecycleHandler) Inside(address string) bool {
	return Handler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}.Inside(address)
}

// HTTPGet probes with a request. A status from 200 to 399 is a Success, unless Expect says
// otherwise.
type HTTPGet struct {
	Via     Via
	Scheme  string // "http" or "https"
	Host    string // empty: see Via; on the host it is the container's address
	Port    int
	Method  string // GET, HEAD, POST or OPTIONS; empty: GET. Redirects of the last two are not followed
	Path    string // may have a query
	Headers []Header
	Expect  *Expect    // nil: as the kubelet; a hook must have none
	TLS     *TLSClient // of https; nil: any certificate is accepted. Redirects to another server are not followed with it
	// KeepAlive keeps the connection for the next probe, for at most MaxIdle. A POST always makes a new one, and so do
	// what a redirect leads to and a hook.
	KeepAlive bool
}

func (h *HTTPGet) method() string { return cmp.Or(h.Method, http.MethodGet) }

// Header is one HTTP request header.
type Header struct{ Name, Value string }

// TCPSocket probes by opening a connection, which it closes at once.
type TCPSocket struct {
	Via  Via
	Host string // empty: see Via; on the host it is the container's address
	Port int
}

// Exec probes by running a command inside the container, without a shell. Exit code 0
// is a Success. $(NAME) in an argument is replaced from Target.Env as in Kubernetes: an
// unknown name stays as it is, and $$(NAME) becomes $(NAME). Results show $(NAME) in
// place of a value, unless it is shorter than four bytes.
type Exec struct {
	Command []string
	// WarningExitCodes are exit codes that are a Success with a warning. A hook has none.
	WarningExitCodes []int
}

// GRPC probes with grpc.health.v1.Health/Check.
type GRPC struct {
	Via     Via
	Port    int
	Service string
	TLS     *TLSClient // nil: without TLS
	// KeepAlive keeps the connection for the next probe, for at most MaxIdle.
	KeepAlive bool
}

// EngineHealth probes by reading the engine's result of the container's HEALTHCHECK.
type EngineHealth struct{}

// LifecycleHandler says what a lifecycle hook does. Exactly one field is set.
type LifecycleHandler struct {
	// HTTPGet succeeds with any reply, whatever its status. It also waits for the body,
	// at most MaxOutput bytes, so that a server may do its work before it ends.
	HTTPGet   *HTTPGet
	TCPSocket *TCPSocket // opens a connection and closes it
	Exec      *Exec
	Sleep     *Sleep
}

// Sleep is a hook that waits.
type Sleep struct{ Duration time.Duration }

// Hook is a post_start or pre_stop hook of one run of a container.
type Hook interface {
	// Run returns when the hook has ended, and at once when ctx ends: it has no other
	// deadline. An end by ctx is an error, unless the status of an HTTP reply came
	// before. Run may be called from any goroutine; see Ask for what becomes of it.
	Run(ctx context.Context) HookResult
}

// HookResult is the result of one hook.
type HookResult struct {
	// Err is nil when the hook succeeded. Its text, at most MaxOutput bytes, has the
	// output of a command that failed. It never has an HTTP server's reply, a header
	// or the value of a variable: they may be secret.
	Err error
	// NotAsked says that healthd could not run the hook, or does not know whether it
	// ran: no engine, no descriptor. Nothing was learnt about the container.
	NotAsked bool
	// HTTPFallback says that the server answered an https hook in plain HTTP, and that
	// the hook was sent again without TLS and without the header Authorization.
	HTTPFallback bool
}

// Target is the container to probe.
type Target struct {
	Runtime string // name of the runtime: selects one of Config.Engines
	ID      string // of the container
	Address string // IP address; empty when the container has none, and when healthd does not reach it
	// Unreached says why healthd does not reach the address that the container has; empty where
	// Address is not.
	Unreached string
	// Confined says that loopback addresses are those of healthd's own container: what listens on those
	// of the host is not asked there.
	Confined bool
	// Namespace is the container's network namespace. The caller closes it when the run
	// has ended. nil: nobody can enter it.
	Namespace *Namespace
	// Env is the container's environment, "NAME=value" each, for $(NAME) in commands.
	// It may hold secrets.
	Env        []string
	EnvClipped bool // there is more of it: a command with $(NAME) cannot be run
}

// Execer runs commands inside containers.
type Execer interface {
	// Exec runs argv inside the container, without a shell, and returns when its
	// process has ended, even if a background process still holds its output open.
	// The process and all its descendants are killed when the timeout, counted from
	// the start of the process, is over (timedOut) or ctx ends (err). The greatest
	// Duration means no timeout. output is stdout, then stderr, together at most limit
	// bytes. Exec calls started when the process runs, unless it has ended before that
	// was noticed, and never after it has returned.
	//
	// err means that nothing is known about the command's success. An err with a method
	// NotStarted() bool that returns true says that the container has no such command or
	// cannot run it. An err with a method StillRuns(context.Context) (bool, error) says
	// that the command could not be ended, with or without timedOut. The method tries
	// again, and returns false and nil when the command has ended, true and why it cannot
	// be ended while it runs, and false and an error when that is not known.
	Exec(ctx context.Context, container string, argv []string, timeout time.Duration, limit int, started func()) (output []byte, exitCode int, timedOut bool, err error)
}

// HealthReader reads the results of an engine's own health checks.
type HealthReader interface {
	// Health returns "healthy", "unhealthy", "starting" or, where the container
	// has no health check, "none", and the output of the newest check.
	Health(ctx context.Context, container string) (status, output string, err error)
}

// Engine is what exec and engine_health probes need of a container engine.
type Engine interface {
	Execer
	HealthReader
}
