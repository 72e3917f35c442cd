// Package prober asks a container how it is, over HTTP, TCP, gRPC, a command run
// inside it or its engine's own HEALTHCHECK, and says what came of it. It runs
// lifecycle hooks by the same means. It knows no thresholds and nothing of a
// container's life: those are the supervisor's.
package prober

import (
	"context"
	"time"
)

// MaxOutput bounds the output kept of one probe, in bytes (10 KiB, as in the
// kubelet).
const MaxOutput = 10 << 10

// Outcome is what one probe says.
type Outcome uint8

// The outcomes.
const (
	// Unknown: the question could not be asked, so nothing was learnt about the
	// container. It must not count for or against it.
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

// Cause classes why a probe did not simply succeed.
type Cause string

// The causes. NotAsked and Pending come with Unknown, Redirect with a success
// that has a warning, the others with Failure.
const (
	Refused     Cause = "refused"
	Timeout     Cause = "timeout"
	Reset       Cause = "reset"       // also closed before the answer was complete
	Unreachable Cause = "unreachable" // no route, or the name does not resolve
	TLS         Cause = "tls"
	Protocol    Cause = "protocol" // the peer speaks something else, or redirects without end
	Status      Cause = "status"   // HTTP status, gRPC serving status, engine health
	ExitCode    Cause = "exit code"
	Redirect    Cause = "redirect"
	NotAsked    Cause = "could not ask"
	Pending     Cause = "pending" // asked, and the answer is: not decided yet
)

// Result is the answer to one probe.
type Result struct {
	Outcome Outcome
	Cause   Cause  // empty for a plain success
	Warning bool   // a success worth an event: a redirect that was not followed
	Output  string // at most MaxOutput bytes, valid UTF-8
	Latency time.Duration
}

// Probe asks one question of one run of a container. Ask may be called from any
// goroutine, but not twice at once. It returns within timeout plus the time that
// the operating system or the engine needs to give up, and at once with Unknown
// when ctx ends.
type Probe interface {
	Ask(ctx context.Context, timeout time.Duration) Result
}

// Handler says how to ask. Exactly one field is set.
type Handler struct {
	HTTPGet      *HTTPGet
	TCPSocket    *TCPSocket
	Exec         *Exec
	GRPC         *GRPC
	EngineHealth *EngineHealth
}

// HTTPGet asks with a GET request. A status of 200 to 399 is a success.
type HTTPGet struct {
	Scheme  string // "http" or "https"
	Host    string // empty: the container's address
	Port    int
	Path    string // may have a query
	Headers []Header
}

// Header is one HTTP request header.
type Header struct{ Name, Value string }

// TCPSocket asks by opening a connection.
type TCPSocket struct {
	Host string // empty: the container's address
	Port int
}

// Exec asks by running a command inside the container, without a shell. Exit
// code 0 is a success. $(NAME) in a word is replaced by Target.Env as Kubernetes
// does it: unknown names stay as they are, and $$(NAME) is $(NAME). The values do
// not show in results: there the names stand, but for values of less than four
// bytes.
type Exec struct{ Command []string }

// GRPC asks grpc.health.v1.Health/Check, in plain text.
type GRPC struct {
	Port    int
	Service string
}

// EngineHealth asks the engine for the verdict of the container's HEALTHCHECK.
type EngineHealth struct{}

// LifecycleHandler says what a lifecycle hook does. Exactly one field is set.
type LifecycleHandler struct {
	// HTTPGet succeeds with any reply, whatever its status. The beginning of the
	// body is waited for, so that a server may take its time there.
	HTTPGet   *HTTPGet
	TCPSocket *TCPSocket // opening the connection is all
	Exec      *Exec
	Sleep     *Sleep
}

// Sleep lets time go by.
type Sleep struct{ Duration time.Duration }

// Hook is what a container does, or is told, at a turn of its life. Run may be
// called from any goroutine.
type Hook interface {
	// Run returns when the hook has ended, and at once when ctx ends, which is the
	// only deadline it has. That is an error, unless the status of an HTTP reply
	// has come before.
	Run(ctx context.Context) HookResult
}

// HookResult is how a hook ended.
type HookResult struct {
	// Err is nil when the hook did what it should. Its text has nothing of what
	// an HTTP server said, no header and no value of a variable; of a command that
	// failed it has the output, at most MaxOutput bytes together.
	Err error
	// NotAsked says that Err is why the hook could not be run, or that nobody knows
	// whether it was, as for want of an engine or a descriptor: nothing was learnt
	// about the container.
	NotAsked bool
	// HTTPFallback says that the server answered an https hook in plain HTTP and
	// was asked again without TLS and without the header Authorization.
	HTTPFallback bool
}

// Target is whom to ask.
type Target struct {
	Runtime string // which Engine of Config
	ID      string // container
	Address string // IP address; empty when the container has none
	// Env is the container's environment, "NAME=value" each, for $(NAME) in the
	// words of commands. It may hold secrets.
	Env []string
}

// Execer runs commands inside containers.
type Execer interface {
	// Exec runs argv inside the container, without a shell, and returns when its
	// process has ended, whoever still holds its output open. The process and all
	// its descendants are killed when timeout, counted from the start of the
	// process, is over (timedOut) or ctx ends (err). The greatest Duration is no
	// timeout. output is what it wrote: stdout, then stderr, at most limit bytes.
	// err means that nothing is known of the command's success; one with a method
	// NotStarted() bool that says true, that the container has no such command or
	// cannot run it.
	Exec(ctx context.Context, container string, argv []string, timeout time.Duration, limit int) (output []byte, exitCode int, timedOut bool, err error)
}

// HealthReader reads what an engine's own health check says.
type HealthReader interface {
	// Health returns "healthy", "unhealthy", "starting" or, where the container
	// has no health check, "none", and the output of the newest check.
	Health(ctx context.Context, container string) (status, output string, err error)
}

// Engine is what the probes that go through an engine need of it.
type Engine interface {
	Execer
	HealthReader
}
